import asyncio
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.gateway.errors import ApiError
from services.gateway.limits.bodies import parse, read, replayed

# The machine may be busy.
PATIENTLY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def refusal(body, **options):
    with pytest.raises(ApiError) as refused:
        parse(body, **{"model_needed": True, **options})
    return refused.value.status_code, refused.value.code, refused.value.param


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"nonsense", b'{"model": "m", "temperature": NaN}', b'{"model": "m", "x": Infinity}', b"\xff\xfe{}",
        b'{"model": "\xff"}', b'{"model": "m"} {}', b"[" * 100_000, b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b"[]", b'"model"', b"1", b"null",
    ],
)  # fmt: skip
def test_what_is_no_json_object_is_refused(body):
    assert refusal(body) == (400, "invalid_json", None)


@pytest.mark.parametrize("body", [b"{}", b'{"model": ""}', b'{"model": 5}', b'{"model": null}', b'{"model": ["m"]}'])
def test_a_request_names_its_model(body):
    assert refusal(body) == (400, "missing_model", "model")


def test_where_there_is_one_model_only_it_need_not_be_named():
    assert parse(b'{"query": "q"}', model_needed=False) == {"query": "q"}
    assert refusal(b'{"model": 5}', model_needed=False) == (400, "missing_model", "model")


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'{"model": "cheap", "model": "dear"}', "model"),
        (b'{"model": "cheap", "mod\\u0065l": "dear"}', "model"),
        (b'{"model": "m", "max_tokens": 1, "max_tokens": 9999}', "max_tokens"),
        (b'{"model": "m", "max_tokens": 1, "max\\u005ftokens": 9999}', "max_tokens"),
        (b'{"model": "m", "n": 1, "n": 100}', "n"),
    ],
)
def test_what_counts_is_not_said_twice(body, name):
    assert refusal(body) == (400, "invalid_field", name)


@pytest.mark.parametrize("name", ["Model", "MAX_TOKENS", "N", "\u017ftream"])
def test_what_some_servers_take_for_what_counts_is_refused(name):
    body = json.dumps({"model": "cheap", name: 9999}).encode()
    assert refusal(body) == (400, "invalid_field", name)


def test_names_that_appear_elsewhere_too_are_no_repetition():
    tool = {"properties": {"model": {"type": "string"}, "n": {}, "stream": {}}}
    asked = {"model": "m", "stream": True, "n": 1, "tools": [tool, tool], "note": 'the "model" \u0000 mod\u0065l'}
    for body in (json.dumps(asked), json.dumps(asked, ensure_ascii=False)):
        assert parse(body.encode(), model_needed=True) == asked


KEYS = st.sampled_from(["model", "n", "max_tokens", "a"])


@PATIENTLY
@given(st.lists(st.tuples(KEYS, st.booleans(), st.sampled_from(['"x"', "1"])), max_size=6))
def test_a_repetition_is_found_however_it_is_written(pairs):
    def quoted(name, escaped):
        return '"' + (f"\\u{ord(name[0]):04x}{name[1:]}" if escaped else name) + '"'

    body = "{" + ",".join(f"{quoted(name, escaped)}:{value}" for name, escaped, value in pairs) + "}"
    names = [name for name, _, _ in pairs]
    repeated = any(names.count(name) > 1 for name in ("model", "n", "max_tokens"))
    try:
        parse(body.encode(), model_needed=False)
        refused = ""
    except ApiError as error:
        refused = error.code
    if repeated:
        assert refused == "invalid_field"
    else:
        assert refused != "invalid_field"


def sending(*chunks):
    messages = [
        {"type": "http.request", "body": chunk, "more_body": at < len(chunks) - 1} for at, chunk in enumerate(chunks)
    ]

    async def receive():
        return messages.pop(0)

    return receive


@PATIENTLY
@given(st.lists(st.binary(), min_size=1, max_size=8))
def test_a_body_is_the_same_however_it_comes(chunks):
    assert asyncio.run(read(sending(*chunks), 60)) == b"".join(chunks)


async def test_a_body_that_does_not_come_is_given_up():
    async def receive():
        await asyncio.sleep(3600)

    with pytest.raises(ApiError) as refused:
        await read(receive, 0.05)
    assert (refused.value.status_code, refused.value.code) == (408, "request_timeout")


async def test_what_was_read_can_be_read_again():
    async def gone():
        return {"type": "http.disconnect"}

    receive = replayed(b"body", gone)
    assert await receive() == {"type": "http.request", "body": b"body", "more_body": False}
    assert await receive() == {"type": "http.disconnect"}
