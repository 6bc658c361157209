import json
from pathlib import Path

import pytest

from services.orchestrator.trials.citation_answers import written_cases
from services.orchestrator.trials.citation_claims import read_sources
from tests.unit.orchestrator.citing.citing_world import numbers_of, passage, rows, streamed

FOLDER = Path(__file__).parents[3] / "data" / "citations" / "fresh"
SOURCES = read_sources(FOLDER)
FORMS = [json.loads(line) for line in (FOLDER / "right.jsonl").read_text(encoding="utf-8").splitlines()]
RIGHT = [(list(one.sources), one.answer) for one in written_cases(FOLDER) if one.right] + [
    ([SOURCES[name] for name in one["sources"]], one["answer"]) for one in FORMS
]
LEASE = passage("The lease runs for five years from 1 March 2024. The rent is 4,850 EUR a month.", "Lease")
STOCK = rows(("product", "units"), ("hinge", 12), ("knob", 40), ("rail", 8), ("pull", 25))


@pytest.mark.parametrize(("sources", "answer"), RIGHT, ids=[answer for _, answer in RIGHT])
async def test_no_right_answer_loses_a_mark_or_is_told_of_a_number(sources, answer):
    shown, found = streamed(answer, *sources)
    assert found == []
    assert shown == answer
    assert await numbers_of(answer, *sources) == []


@pytest.mark.parametrize(
    ("answer", "source"),
    [
        ("The lease ends on 28 February 2028 [1].", LEASE),
        ("The rent is 4,850 USD a month [1].", LEASE),
        ("The rent is 4,860 EUR a month [1].", LEASE),
        ("Three of the four products have fewer than 20 units [1].", STOCK),
        ("One in three applicants was hired [1].", passage("Of 240 applicants we hired 60.", "Hiring")),
        ("The discount on stationery is 95% [1].", passage("Members get a discount of 5% on books.", "Card")),
        ("The excess is CHF 600 per claim [1].", passage("The excess is GBP 600 per claim.", "Fleet")),
        ("P3 incidents are answered within 2 hours [1].", passage("Priority 2 incidents get answers in 2 hours.")),
        ("Marta López: welder, hired to run the team in Vitoria [1].", rows(("name", "job"), ("Ana Gil", "welder"))),
    ],
)
def test_what_only_looks_derived_still_loses_its_mark(answer, source):
    shown, found = streamed(answer, source)
    assert "[1]" not in shown
    assert len(found) == 1


@pytest.mark.parametrize(
    "text",
    ["*" * 580, "- " * 290, "1. " * 190, "|" * 580, "# " * 290, "one in " * 80, "9" * 580, "٣²½ " * 140, "a-" * 290],
)
def test_no_text_keeps_the_check_busy(text):
    streamed(f"{text} [1].", LEASE, STOCK)
    streamed(f"The rent is 4,850 [1]. {text}| [1]", passage(text))
