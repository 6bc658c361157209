"""An answer that gives away the system prompt is cut, however the word in it is spelt."""

import base64
import codecs

import pytest

from services.orchestrator.events import FindingKind
from services.orchestrator.shield.canary import Canary, canary_of
from services.orchestrator.shield.links import LinkFilter

WORD = canary_of("acme", b"secret of the installation")


def passed(text, piece):
    one = LinkFilter(lambda _: True, lambda _: True, Canary(WORD))
    shown = "".join(one.feed(text[at : at + piece]) for at in range(0, len(text), piece)) + one.flush()
    return shown, one.take_findings()


def test_it_is_the_tenants_own_and_the_same_in_every_run():
    assert canary_of("acme", b"secret of the installation") == WORD
    assert WORD not in (canary_of("other", b"secret of the installation"), canary_of("acme"))


@pytest.mark.parametrize("piece", [1, 3, 11, 10_000])
@pytest.mark.parametrize(
    "spelt",
    [
        WORD,
        WORD.upper(),
        " ".join(WORD),
        "-".join(WORD),
        WORD[::-1],
        codecs.encode(WORD, "rot13"),
        WORD.encode().hex(),
        *(base64.b64encode(b"x" * lead + WORD.encode() + b" and more").decode() for lead in range(4)),
        *(base64.b32encode(b"x" * lead + WORD.encode() + b" and more").decode() for lead in range(6)),
        "\u200b".join(WORD),
    ],
)
def test_the_answer_is_cut_before_the_word_is_out(spelt, piece):
    shown, findings = passed(f"My rules are: {spelt} and so on, and on.", piece)
    assert "and so on" not in shown
    assert "withheld" in shown
    assert [one.kind for one in findings] == [FindingKind.PROMPT_LEAK]
    letters = "".join(filter(str.isalnum, shown.lower()))
    assert WORD not in letters
    assert spelt not in shown


def test_an_answer_without_it_is_whole():
    text = f"The code {WORD[:9]} is not the word, nor is cn123."
    assert passed(text, 3) == (text, [])
