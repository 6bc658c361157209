"""What a model writes is taken only with a quote, clear by itself, and not known anyway."""

import json

import pytest

from services.evaluation.golden.building.author import Author
from services.evaluation.golden.building.candidate import Rejection
from services.evaluation.golden.building.chunk import Chunk
from services.evaluation.golden.building.corpus import Corpus
from services.evaluation.golden.item import Stratum
from services.evaluation.judge.judge import JudgeFailed
from services.evaluation.judge.scripted import Script, ScriptedJudge

HOTEL = Chunk("travel", "A hotel in Lisbon costs at most 110 EUR a night.", "Travel", language="en")
DESK = Chunk("desk", "The travel desk in Lisbon opens at nine.", "Desk", language="en")
QUESTION = {"question": "What may a Lisbon hotel cost?", "reference": "110 EUR", "quote": "at most 110 EUR a night"}
CLEAR = {"reason": "", "by_itself": True, "answered": True, "one_answer": True}
UNKNOWN = {"known": False, "answer": ""}


def author(**answers):
    told = {task: [json.dumps(one) for one in given] for task, given in answers.items()}
    judge = ScriptedJudge(Script(), first=told)
    return Author(judge, judge, Corpus([HOTEL, DESK]))


async def single(question=None, clear=None, closed_book=None, same=()):
    written = {"items": [QUESTION | (question or {})]}
    asked = author(questions=[written], clear=[CLEAR | (clear or {})], closed_book=[closed_book or UNKNOWN], same=same)
    [made] = await asked.single_hop(HOTEL, 1)
    return made


async def test_a_question_with_a_quote_that_nobody_knows_is_taken():
    made = await single()
    assert (made.question, made.reference, made.stratum) == (QUESTION["question"], "110 EUR", Stratum.SINGLE_HOP)
    assert (made.documents, made.chunks, made.rejected) == (["travel"], [HOTEL.id], None)


@pytest.mark.parametrize(
    ("spoiled", "why"),
    [
        ({"question": {"question": " "}}, Rejection.EMPTY),
        ({"question": {"reference": ""}}, Rejection.EMPTY),
        ({"question": {"quote": "at most 120 EUR"}}, Rejection.NOT_IN_PASSAGE),
        ({"question": {"quote": ""}}, Rejection.NOT_IN_PASSAGE),
        ({"clear": {"answered": False}}, Rejection.NOT_IN_PASSAGE),
        ({"clear": {"by_itself": False}}, Rejection.AMBIGUOUS),
        ({"clear": {"one_answer": False}}, Rejection.AMBIGUOUS),
        ({"closed_book": {"known": True, "answer": "110 eur."}}, Rejection.KNOWN),
        (
            {"closed_book": {"known": True, "answer": "one hundred and ten"}, "same": [{"reason": "", "same": True}]},
            Rejection.KNOWN,
        ),
    ],
)
async def test_a_question_that_is_of_no_use_is_rejected_with_its_reason(spoiled, why):
    assert (await single(**spoiled)).rejected is why


async def test_a_wrong_answer_without_the_corpus_is_no_reason():
    known = {"known": True, "answer": "95 EUR"}
    assert (await single(closed_book=known, same=[{"reason": "", "same": False}])).rejected is None


def double(**changed):
    one = {
        "question": "May I ask the desk at eight for a hotel of 110 EUR?",
        "reference": "No, it opens at nine.",
        "first_quote": "110 EUR",
        "second_quote": "opens at nine",
    }
    return {"items": [one | changed]}


async def test_a_question_on_two_chunks_needs_both():
    alone = CLEAR | {"answered": False}
    [made] = await author(two_passages=[double()], clear=[alone, alone, CLEAR], closed_book=[UNKNOWN]).multi_hop(
        HOTEL, DESK
    )
    assert (made.stratum, made.documents, made.rejected) == (Stratum.MULTI_HOP, ["travel", "desk"], None)
    [made] = await author(two_passages=[double()], clear=[alone, CLEAR]).multi_hop(HOTEL, DESK)
    assert (made.rejected, made.detail) == (Rejection.ONE_PASSAGE, "desk")
    [made] = await author(two_passages=[double(second_quote="110 EUR")]).multi_hop(HOTEL, DESK)
    assert made.rejected is Rejection.NOT_IN_PASSAGE
    [made] = await author(two_passages=[double(reference="")]).multi_hop(HOTEL, DESK)
    assert made.rejected is Rejection.EMPTY


FALSE = {
    "question": "Why is a Lisbon hotel limited to 90 EUR?",
    "premise": "A hotel in Lisbon costs at most 90 EUR a night.",
    "quote": "at most 110 EUR a night",
    "correction": "It is not: the limit is 110 EUR.",
}


@pytest.mark.parametrize(
    ("changed", "found", "why"),
    [
        ({}, False, None),
        ({}, True, Rejection.HELD),
        ({"correction": ""}, None, Rejection.EMPTY),
        ({"quote": "at most 90 EUR"}, None, Rejection.NOT_IN_PASSAGE),
        ({"premise": "a hotel in Lisbon costs at most 110 EUR a night"}, None, Rejection.UNCHANGED),
    ],
)
async def test_a_false_premise_is_false_in_the_whole_corpus(changed, found, why):
    holds = [] if found is None else [{"reason": "", "found": found}]
    [made] = await author(false_premise=[FALSE | changed], holds=holds).false_premise(HOTEL)
    assert (made.rejected, made.stratum) == (why, Stratum.FALSE_PREMISE)
    if why is None:
        assert made.reference == FALSE["correction"]


@pytest.mark.parametrize(
    ("question", "found", "why"),
    [
        ("Is there a swimming pool?", False, None),
        ("When does the desk open?", True, Rejection.ANSWERED),
        ("", None, Rejection.EMPTY),
    ],
)
async def test_what_nothing_answers_is_answered_nowhere(question, found, why):
    answers = [] if found is None else [{"reason": "so", "found": found}]
    [made] = await author(unanswerable=[{"question": question}], answers=answers).unanswerable(HOTEL)
    assert (made.rejected, made.reference, made.stratum) == (why, None, Stratum.UNANSWERABLE)


async def test_a_question_that_repeats_its_passage_is_none():
    text = "The travel desk in Lisbon opens at nine, closes at five, and takes letters, parcels, calls and visitors."
    long = Chunk("desk", text)
    judge = ScriptedJudge(Script(), first={"unanswerable": [json.dumps({"question": f"{{text: {text}}}"})]})
    [made] = await Author(judge, judge, Corpus([long])).unanswerable(long)
    assert made.rejected is Rejection.ECHO


async def test_a_model_that_fails_is_a_failure_and_no_rejection():
    with pytest.raises(JudgeFailed):
        await author().single_hop(HOTEL, 1)
