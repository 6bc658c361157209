import hashlib
import re

from hypothesis import given
from hypothesis import strategies as st

from services.runtime import api_keys


def test_a_new_key_has_a_public_part_and_a_secret_of_256_bits():
    new = api_keys.mint()
    found = re.fullmatch(r"sk-sabueso-([a-z0-9]{10})-([A-Za-z0-9_-]{43})", new.text)
    assert found
    assert (new.public_id, new.prefix) == (found[1], f"sk-sabueso-{found[1]}")
    assert new.sha256 == hashlib.sha256(new.text.encode()).hexdigest()
    assert len(new.prefix) <= 24


def test_no_two_keys_are_alike_and_none_shows_itself():
    keys = [api_keys.mint() for _ in range(1000)]
    assert len({key.public_id for key in keys}) == len({key.text for key in keys}) == 1000
    assert keys[0].text not in repr(keys[0])


def test_every_new_key_is_recognised_as_one():
    for _ in range(1000):
        key = api_keys.mint().text
        assert api_keys.may_be_issued(key)
        assert api_keys.holds_key(key)
        assert api_keys.holds_key(f"/v1/models/{key}")
        assert not api_keys.may_be_issued(key[:20])


def test_words_are_no_keys():
    words = ("risk-assessment-2025", "sk-bratislava-contract-2025", "sk-", "/v1/models/gpt-4o", "sk-sabueso-guide")
    for text in words:
        assert not api_keys.holds_key(text)


@given(st.text())
def test_any_text_can_be_looked_at(text):
    api_keys.digest_of(text)
    api_keys.may_be_issued(text)
    api_keys.holds_key(text)
