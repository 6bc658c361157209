import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.runtime.errors import DependencyFailed, NotPermitted
from services.web_tool.decoding import decoder

ROOM = 1_000_000


def decoded(encoding, body, size=64 * 1024, room=ROOM):
    made = decoder(encoding)
    found = b""
    for start in range(0, len(body), size):
        found += made.decode(body[start : start + size], room - len(found))
        if len(found) >= room:
            return found
    made.finish()
    return found


def raw_deflate(content):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(content) + packer.flush()


PACKERS = {
    "identity": bytes,
    "": bytes,
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZIP ": gzip.compress,
    "deflate": zlib.compress,
}


@given(st.sampled_from(sorted(PACKERS)), st.binary(max_size=500), st.integers(1, 600))
def test_a_body_comes_back_in_whatever_pieces_it_came(encoding, content, size):
    assert decoded(encoding, PACKERS[encoding](content), size) == content


@given(st.binary(max_size=500), st.integers(1, 600))
def test_deflate_without_the_head_of_zlib_is_read_too(content, size):
    packed = raw_deflate(content)
    looks_like_zlib = len(packed) > 1 and packed[0] & 15 == 8 and not (packed[0] << 8 | packed[1]) % 31
    if not looks_like_zlib:
        assert decoded("deflate", packed, size) == content


def test_a_file_of_several_members_is_one_body():
    assert decoded("gzip", gzip.compress(b"a") + gzip.compress(b"b") + b"\0\0padding") == b"ab"


def test_a_bomb_gives_no_more_than_there_is_room_for():
    bomb = gzip.compress(bytes(50_000_000), 1)
    assert len(decoded("gzip", bomb, room=70_000)) == 70_000


def test_a_bomb_within_a_bomb_gives_bytes_of_the_first_only():
    assert decoded("gzip", gzip.compress(gzip.compress(b"x"))).startswith(b"\x1f\x8b")


def test_ten_thousand_empty_members_are_refused():
    with pytest.raises(DependencyFailed, match="too many parts"):
        decoded("gzip", gzip.compress(b"") * 10_000)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_body_that_ends_in_the_middle_is_no_body(encoding):
    body = PACKERS[encoding](b"words " * 100)
    for size in (1, 5, len(body) - 1):
        with pytest.raises(DependencyFailed, match="middle"):
            decoded(encoding, body[:size])


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_what_is_not_packed_as_it_says_is_refused(encoding):
    with pytest.raises(DependencyFailed):
        decoded(encoding, b"\xffplain words that nobody packed")


@pytest.mark.parametrize("encoding", ["br", "zstd", "compress", "gzip, gzip", "gzip,identity", "x" * 1000])
def test_encodings_that_were_not_asked_for_are_refused(encoding):
    with pytest.raises(NotPermitted) as caught:
        decoder(encoding)
    assert caught.value.metadata["rule"] == "encoding"


@given(st.sampled_from(sorted(PACKERS)), st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(encoding, body):
    try:
        decoded(encoding, body, 7)
    except DependencyFailed:
        pass
