import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.orchestrator.citing.claims import Claim
from services.orchestrator.citing.judge import ModelJudge, excerpt
from services.orchestrator.citing.meaning import Meaning
from services.orchestrator.citing.review import Draft
from services.orchestrator.citing.reviewer import EvidenceReviewer
from services.orchestrator.citing.support import Support
from services.orchestrator.model import ScriptedModel, Spent, Turn, Usage
from services.orchestrator.results import Degraded
from services.orchestrator.routing.encoder import HashedStems
from services.runtime.errors import DependencyFailed
from tests.unit.orchestrator.citing.citing_world import numbers_of, passage, reckoned, reviewed, rows

STATUS = rows(
    ("status", "contracts", "total"),
    ("active", 61, "9412500.00"),
    ("ended", 38, "4120300.50"),
    ("draft", 9, "730000.00"),
)
HOLIDAYS = passage("Up to five days may be carried over and are used before 31 March of the next year.")


@pytest.mark.parametrize(
    "answer",
    [
        "There are 61 active contracts worth 9,412,500 EUR [1].",
        "Hay 61 contratos activos por 9.412.500,00 € [1].",
        "Active contracts are worth about 9.4 million [1].",
        "In total there are 108 contracts [1].",
        "En total son 108 contratos por 14.262.800,50 EUR [1].",
        "There are 23 more active contracts than ended ones [1].",
        "Active contracts are 56.5 % of the total of 108 [1].",
        "The average is 36 contracts per status [1].",
        "There are three statuses [1].",
        "Two of them matter: active and ended [1].",
        "Of more than 60 active contracts nothing else is known [1].",
        "1. Active: 61 [1]\n2. Ended: 38 [1]",
    ],
)
async def test_numbers_that_the_evidence_has_or_that_follow_from_it_are_right(answer):
    assert await numbers_of(answer, STATUS) == []


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        ("There are 62 active contracts.", ["62"]),
        ("Active contracts are worth 9.4 million.", ["9.4 million"]),
        ("In total there are 109 contracts.", ["109"]),
        ("Hay 108 contratos.", ["108"]),
        ("Active contracts are 59 % of all.", ["59 %"]),
        ("Hay 61 activos, 39 terminados y 9 borradores.", ["39"]),
        ("Signed on 3 March 2024.", ["3 March 2024"]),
        ("About 12 million are active.", ["12 million"]),
    ],
)
async def test_numbers_that_do_not_are_found(answer, wrong):
    assert await numbers_of(answer, STATUS) == wrong


async def test_numbers_of_the_question_may_be_repeated():
    answer = "You asked for contracts above 100,000 EUR: there are 61."
    assert await numbers_of(answer, STATUS) == ["100,000 EUR"]
    assert await numbers_of(answer, STATUS, question="How many contracts above 100k€?") == []


async def test_what_was_said_before_may_be_repeated():
    review = await reviewed("As I said, 47 of them, and 61 now.", STATUS, said=["There were 47."])
    assert review.findings == []


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        ("There are 62 active contracts.", "Note: I could not find this number in the sources: 62."),
        ("There are 62 active and 41 ended.", "Note: I could not find these numbers in the sources: 62, 41."),
        ("Hay 62 contratos activos en la base.", "Nota: no he encontrado esta cifra en las fuentes: 62."),
    ],
)
async def test_the_answer_says_of_itself_what_is_in_no_source_in_its_language(answer, note):
    assert (await reviewed(answer, STATUS)).note == note


async def test_a_right_answer_gets_no_note():
    review = await reviewed("There are 61 active contracts [1].", STATUS)
    assert (review.note, review.findings, review.withdrawn) == ("", [], False)


async def test_an_answer_without_evidence_may_count_small_things_and_no_large_ones():
    assert await numbers_of("I can help with 3 things: documents, databases and the web.") == []
    assert await numbers_of("The tower is 330 metres high.") == ["330"]


@pytest.mark.parametrize(
    "answer",
    [
        "I could not find how many of the 500 days are left.",
        "The documents do not say whether 20 days can be sold [1].",
        "No he encontrado en los documentos un límite de 90 días.",
        "There is no information about the 45-day limit.",
        "The policy does not set a limit of 45 days [1].",
    ],
)
async def test_who_says_what_could_not_be_found_is_not_blamed(answer):
    assert (await reviewed(answer, HOLIDAYS)).findings == []


async def test_a_result_of_the_calculator_counts_as_evidence_if_what_was_put_in_does():
    found = reckoned("(9412500.00 - 4120300.50) / 4120300.50 * 100", "128.44206")
    assert await numbers_of("That is 128.4 more in relation [2].", STATUS, found) == []


async def test_a_number_that_nobody_found_does_not_become_evidence_by_being_reckoned_with():
    assert await numbers_of("It is 4444 [2].", STATUS, reckoned("4440 + 4", "4444")) == ["4444"]


class Noting:
    """Notes what it is asked to encode."""

    def __init__(self):
        self.inner, self.asked = HashedStems(64), []

    async def encode(self, texts, seconds):
        self.asked.append(list(texts))
        return await self.inner.encode(texts, seconds)


FOREIGN = passage("Los gastos de viaje se liquidan en treinta días.", language="es")


async def test_a_citation_in_another_language_is_judged_by_meaning():
    encoder = HashedStems(256)
    reviewer = EvidenceReviewer(Meaning(encoder), seconds=30)
    answer = "The cat sat on the mat and slept [1]."
    review = await reviewed(answer, FOREIGN, reviewer=reviewer)
    assert [(one.kind.value, one.mark, one.reason) for one in review.findings] == [
        ("citation", 1, "the source is about something else")
    ]
    assert review.note == "Note: the source 1 does not clearly support the sentence that cites it."


async def test_what_words_support_asks_for_no_embeddings():
    encoder = Noting()
    await reviewed("Up to five days may be carried over [1].", HOLIDAYS, reviewer=EvidenceReviewer(Meaning(encoder)))
    assert encoder.asked == []


async def test_all_doubts_of_an_answer_take_one_call():
    encoder = Noting()
    answer = "The cat sat on the mat [1]. The dog is in the garden [1]. This is what they say of it [1]."
    await reviewed(answer, FOREIGN, reviewer=EvidenceReviewer(Meaning(encoder), seconds=30))
    assert len(encoder.asked) == 1


class Lost:
    async def encode(self, texts, seconds):
        raise DependencyFailed("embedding does not answer.", dependency="embedding")


class Slow:
    async def encode(self, texts, seconds):
        await asyncio.sleep(600)


@pytest.mark.parametrize("encoder", [Lost(), Slow()])
async def test_without_embeddings_the_rest_is_checked_and_the_loss_is_named(encoder):
    reviewer = EvidenceReviewer(Meaning(encoder), seconds=0.2)
    review = await reviewed("The cat has 9 lives in this house [1].", FOREIGN, reviewer=reviewer)
    assert [one.text for one in review.findings if one.kind.value == "number"] == ["9"]
    review = await reviewed("The cat sat on the mat and slept [1].", FOREIGN, reviewer=reviewer)
    assert list(review.findings) == []
    assert review.degraded == [Degraded("embedding", "the meaning of citations could not be checked")]


class Broken:
    async def encode(self, texts, seconds):
        raise RuntimeError("a bug")


async def test_a_review_never_raises():
    review = await reviewed("The cat sat on the mat [1].", FOREIGN, reviewer=EvidenceReviewer(Meaning(Broken())))
    assert review.degraded[0].service == "citation_check"


async def test_by_setting_a_model_judges_what_nothing_else_decides():
    model = ScriptedModel([Turn('{"unsupported": [1, 7]}', usage=Usage(100, 5))])
    reviewer, spent = EvidenceReviewer(judge=ModelJudge(model), seconds=30), Spent()
    draft = Draft("", "The cat sat on the mat and slept [1].", {1: FOREIGN})
    review = await reviewer.review(draft, spent, 30)
    assert [one.mark for one in review.findings] == [1]
    assert "a model" in review.findings[0].reason
    assert spent.usage == Usage(100, 5)
    assert "cat sat" in model.requests[0][0][-1].text


FILLING = "The office is open to staff on every day of the week, and the canteen is too.\n"
EVIDENCE = "Cats slept upon a rug for 40 minutes, says the log."


@pytest.mark.parametrize("line", [FILLING, FILLING.replace("\n", " ")])
async def test_a_model_that_judges_reads_the_part_of_a_long_source_that_speaks_of_the_claim(line):
    filled = (line * 60)[:4_000]
    source = f"Log of the house.\n{filled}{EVIDENCE} {filled}The end was on Monday, 3 May. {line * 20}"
    model = ScriptedModel([Turn('{"unsupported": []}')])
    asked = [Claim("A cat slept for 40 minutes", (1,)), Claim("The office shut on 3 May", (1,))]
    assert await ModelJudge(model).unsupported(asked, {1: source}, Spent(), 30) == []
    (sent,) = json.loads(model.requests[0][0][-1].text)["sources"]
    assert EVIDENCE in sent["text"]
    assert "Monday, 3 May" in sent["text"]
    assert sent["text"].startswith("Log of the house.")
    assert len(sent["text"]) < 2_450


@given(st.text("ab1 \n.", max_size=6_000), st.lists(st.text("ab1 ", max_size=40), max_size=16))
@settings(max_examples=60, deadline=None)
def test_an_excerpt_is_made_of_the_source_and_has_a_bound(said, asked):
    shown = excerpt(said, asked)
    assert len(shown) <= 2_500
    assert all(part in said for part in shown.split(" […] "))


@pytest.mark.parametrize("step", [Turn("no JSON"), DependencyFailed("The model does not answer.")])
async def test_a_judge_that_fails_blames_nobody(step):
    reviewer = EvidenceReviewer(judge=ModelJudge(ScriptedModel([step])), seconds=30)
    review = await reviewed("The cat sat on the mat [1].", FOREIGN, reviewer=reviewer)
    assert list(review.findings) == []
    assert [one.service for one in review.degraded] == ["citation_judge"]


def judging_all(*steps, seconds=30, **model):
    return EvidenceReviewer(judge=ModelJudge(ScriptedModel(steps, **model)), seconds=seconds, judges_all=True)


async def test_a_judge_of_all_citations_finds_what_words_support():
    answer = "Up to five days may be carried over [1]. They are used before 31 March [1]."
    review = await reviewed(answer, HOLIDAYS, reviewer=judging_all(Turn('{"unsupported": [2]}')))
    assert [(one.text, one.mark) for one in review.findings] == [("They are used before 31 March", 1)]
    assert "1" in review.note


async def test_a_judge_of_all_citations_clears_what_only_words_and_numbers_doubt():
    answer = "Of the staff, 17 in 20 may carry days over [1]."
    blamed = await reviewed(answer, HOLIDAYS)
    assert blamed.findings
    cleared = await reviewed(answer, HOLIDAYS, reviewer=judging_all(Turn('{"unsupported": []}')))
    assert list(cleared.findings) == []
    assert cleared.note == ""


async def test_a_number_that_nothing_is_cited_for_is_not_cleared():
    answer = "Five days may be carried over [1]. The fine is 83 EUR."
    review = await reviewed(answer, HOLIDAYS, reviewer=judging_all(Turn('{"unsupported": []}')))
    assert [one.text for one in review.findings] == ["83 EUR"]


@pytest.mark.parametrize("step", [Turn("no JSON"), DependencyFailed("The model does not answer.")])
async def test_where_a_judge_of_all_citations_fails_everything_else_holds_and_it_is_told(step):
    answer = "Of the staff, 17 in 20 may carry days over [1]."
    review = await reviewed(answer, HOLIDAYS, reviewer=judging_all(step))
    assert [one.text for one in review.findings] == [one.text for one in (await reviewed(answer, HOLIDAYS)).findings]
    assert [one.service for one in review.degraded] == ["citation_judge"]


async def test_a_judge_that_takes_too_long_is_not_waited_for():
    slow = judging_all(Turn('{"unsupported": [1]}'), seconds=0.05, delay_seconds=30)
    review = await reviewed("Five days may be carried over [1].", HOLIDAYS, reviewer=slow)
    assert list(review.findings) == []
    assert [one.service for one in review.degraded] == ["citation_judge"]


async def test_a_judge_of_all_citations_is_not_asked_where_nothing_is_cited():
    model = ScriptedModel([])
    reviewer = EvidenceReviewer(judge=ModelJudge(model), judges_all=True)
    await reviewed("Five days may be carried over [7].", HOLIDAYS, reviewer=reviewer)
    assert model.requests == []


async def test_a_judge_is_not_asked_where_nothing_is_in_doubt():
    model = ScriptedModel([])
    await reviewed("Five days may be carried over [1].", HOLIDAYS, reviewer=EvidenceReviewer(judge=ModelJudge(model)))
    assert model.requests == []


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        ("Guests may swim here [1].", True),
        ("Guests may not swim here [1].", False),
        ("Dogs are welcome [2].", False),
    ],
)
async def test_a_denial_is_blamed_only_after_a_second_look(answer, wrong):
    lake = passage("Guests may not swim here. They may row.")
    reviewer = EvidenceReviewer(Meaning(HashedStems(1024)))
    review = await reviewed(answer, lake, passage("Dogs are welcome here."), reviewer=reviewer)
    assert [one.mark for one in review.findings] == ([1] if wrong else [])
    assert [one.mark for one in (await reviewed(answer, lake, passage("Dogs are welcome here."))).findings] == []


async def test_a_review_reads_nothing_anew_that_was_read_while_it_streamed():
    sources = {1: rows(("count",), (3,)), 2: passage("The fee is 30 euros.")}
    support = Support(sources)
    read = {mark: support.source(mark) for mark in sources}
    draft = Draft("", "There are 3 [1]. The fee is 30 euros [2].", sources, support=support)
    review = await EvidenceReviewer().review(draft, Spent(), 30)
    assert review.findings == []
    assert all(support.source(mark) is text for mark, text in read.items())


def test_a_reviewer_can_be_warmed_before_the_first_answer():
    EvidenceReviewer().warm()
