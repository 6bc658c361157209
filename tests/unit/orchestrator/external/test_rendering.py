"""What a foreign tool said becomes one bounded text, in which nothing is opened."""

import json

from hypothesis import given
from hypothesis import strategies as st
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from services.orchestrator.external.rendering import rendered

JSON = st.text() | st.integers()


def said(*blocks, **fields):
    return rendered(CallToolResult(content=list(blocks), **fields), 1_000)


def text(words):
    return TextContent(text=words)


def test_texts_are_joined_and_data_follows():
    assert said(text("One."), text(""), text("Two."), structured_content={"n": 7}) == 'One.\n\nTwo.\n\n{"n": 7}'


def test_data_that_a_text_repeats_is_shown_once():
    assert said(text('{ "n":7 }'), structured_content={"n": 7}) == '{ "n":7 }'


def test_pictures_sounds_and_files_are_named_and_not_shown():
    shown = said(
        ImageContent(data="aGVsbG8=", mime_type="image/png"),
        AudioContent(data="aGVsbG8=", mime_type="audio/wav"),
        ResourceLink(name="secret.txt", uri="http://internal/secret.txt"),
        EmbeddedResource(resource=TextResourceContents(uri="file:///etc/passwd", text="root", mime_type="text/plain")),
        EmbeddedResource(resource=BlobResourceContents(uri="file:///x", blob="aGVsbG8=")),
    )
    assert shown.count("not shown") == 4
    assert "not opened: secret.txt" in shown
    assert "aGVsbG8" not in shown
    assert "root" not in shown
    assert "http://internal" not in shown


def test_nothing_said_is_no_text():
    assert said() == ""


def test_a_long_text_is_cut():
    assert rendered(CallToolResult(content=[text("x" * 50)]), 10) == "xxxxxxxxx…"


@given(
    st.lists(st.text(max_size=30), max_size=4), st.integers(1, 40), st.none() | st.dictionaries(st.text(), st.text())
)
def test_the_text_is_never_longer_than_allowed_and_always_text(words, most, data):
    shown = rendered(CallToolResult(content=[text(one) for one in words], structured_content=data), most)
    assert len(shown) <= most
    assert json.loads(json.dumps(shown)) == shown
    shown.encode()
