"""What a reviewer sees of an item: all that matters, on one screen, whatever was written."""

import io

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from services.cli.evals_review_card import card, progress
from services.evaluation.golden.item import ExpectedCall, Item, Stratum

# Lines of a screen and a half; nobody reads on from there.
MOST_LINES = 75
RULE = "Receipts are handed in within ten days. " * 40
PASSAGE = f"{RULE}The largest advance is 600 EUR a trip. {RULE}"
ADVANCE = Item("advance-en", "What is the largest advance?", "en", Stratum.SINGLE_HOP, ("trips",), reference="600 EUR.")


def shown(*what):
    console = Console(width=110, record=True, file=io.StringIO())
    for one in what:
        console.print(one)
    return console.export_text()


def test_of_a_long_passage_the_part_that_bears_on_the_answer_is_shown_and_all_of_it_when_wanted():
    text = shown(card(ADVANCE, [PASSAGE]))
    assert "The largest advance is 600 EUR a trip." in " ".join(text.replace("│", " ").split())
    assert len(text) < len(PASSAGE)
    assert shown(card(ADVANCE, [PASSAGE], whole=True)).count("Receipts") == 80


def test_tools_and_what_their_arguments_must_be_are_said_in_words():
    call = ExpectedCall("vector_search", {"query": {"contains": [["advance", "anticipo"]]}, "top_k": {"optional": 5}})
    other = ExpectedCall("sql_query", {"query": {"sql": "SELECT  1"}}, alternatives=(ExpectedCall("contracts_signed"),))
    text = shown(card(Item("x", "?", "en", Stratum.MULTI_HOP, calls=(call, other)), []))
    for said in (
        "query: has advance or anticipo",
        "top_k: 5, or left out",
        "the rows of SELECT 1",
        "or contracts_signed",
    ):
        assert said in text


def test_what_is_right_to_refuse_and_what_needs_no_tool_is_said():
    assert "a refusal" in shown(card(Item("x", "?", "en", Stratum.UNANSWERABLE, made_from=("d",)), []))
    assert "none" in shown(card(Item("x", "Hello!", "en", Stratum.NO_TOOL), []))


@settings(max_examples=30)
@given(st.text(max_size=5_000), st.text(max_size=5_000), st.lists(st.text(max_size=5_000), max_size=8))
def test_a_card_fits_on_a_screen_and_a_half_whatever_a_model_wrote(question, reference, passages):
    item = Item("x", question, "en", Stratum.SINGLE_HOP, ("d",), reference=reference)
    lines = shown(progress(3, 8), card(item, passages)).split("\n")
    assert len(lines) <= MOST_LINES


def test_a_card_of_nothing_but_line_breaks_is_bounded_too():
    item = Item("x", "a\n" * 600, "en", Stratum.SINGLE_HOP, ("d",), reference="b\n" * 600)
    assert len(shown(card(item, ["c\n" * 500] * 5)).split("\n")) <= MOST_LINES


def test_markup_in_what_was_written_is_shown_and_not_obeyed():
    item = Item("x", "[bold]Is it?[/bold]", "en", Stratum.SINGLE_HOP, ("d",), reference="[red]yes[/red]")
    text = shown(card(item, ["[link=http://evil]here[/link]"]))
    for said in ("[bold]Is it?[/bold]", "[red]yes[/red]", "[link=http://evil]here[/link]"):
        assert said in text


def test_what_would_move_the_cursor_is_left_out():
    item = Item("x", "Is it\x1b[2J so?", "en", Stratum.SINGLE_HOP, ("d",), reference="\x9b31mYes.")
    text = shown(card(item, ["\x1b]0;title\x07 here"]))
    assert not {one for one in text if one in "\x1b\x9b\x07"}
