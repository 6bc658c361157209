"""Which questions are one: by their words, and by their meaning where something embeds them."""

import pytest

from services.evaluation.golden.building.build import markdown
from services.evaluation.golden.building.candidate import Candidate, Rejection
from services.evaluation.golden.building.duplicates import SAME_MEANING, Duplicates
from services.evaluation.golden.item import Stratum
from services.evaluation.metrics.embedder import EmbedderFailed, ScriptedEmbedder
from tests.unit.evaluation.golden.test_build import built

FIRST = "Who pays for the hotel on a business trip?"
OTHER = "By whom are nights away from home covered?"


def asking(question, reference="The department pays.", **more):
    fields = {"language": "en", "stratum": Stratum.SINGLE_HOP, "documents": ["d"], "chunks": ["d"], **more}
    return Candidate(question=question, reference=reference, **fields)


async def marked(*candidates, cosine=0.9):
    texts = {one.question for one in candidates[1:]}
    found = Duplicates(ScriptedEmbedder.by_cosine(candidates[0].question, dict.fromkeys(texts, cosine)))
    assert await found.learn(candidates) == ""
    return [one.rejected for one in found.marked(candidates)]


@pytest.mark.parametrize(("cosine", "same"), [(SAME_MEANING + 0.001, True), (SAME_MEANING - 0.001, False), (0, False)])
async def test_the_same_question_in_other_words_is_taken_once(cosine, same):
    found = await marked(asking(FIRST), asking(OTHER), cosine=cosine)
    assert found == [None, Rejection.SAME_MEANING if same else None]


@pytest.mark.parametrize(
    "other",
    [
        asking(OTHER, "Nobody does, since the rule of 2024."),
        asking(OTHER, "Travellers themselves."),
        asking(OTHER, None),
        asking(f"{OTHER} See rule 7.", "The department pays."),
        asking(OTHER, language="es"),
        asking(OTHER, stratum=Stratum.FALSE_PREMISE),
    ],
    ids=["another figure", "another answer", "a refusal", "another number", "another language", "another stratum"],
)
async def test_what_is_near_and_has_another_answer_or_number_is_another_question(other):
    found = Duplicates(ScriptedEmbedder.by_cosine(FIRST, {other.question: 0.99}))
    if other.language == "en":
        assert await found.learn([asking(FIRST), other]) == ""
    assert [one.rejected for one in found.marked([asking(FIRST), other])] == [None, None]


async def test_what_was_rejected_already_is_neither_embedded_nor_a_reason_to_reject_another():
    known = asking(FIRST).refused(Rejection.KNOWN)
    found = Duplicates(ScriptedEmbedder({OTHER: (1.0, 0.0)}))
    assert await found.learn([known, asking(OTHER)]) == ""
    assert [one.rejected for one in found.marked([known, asking(OTHER)])] == [Rejection.KNOWN, None]


class Lost:
    async def embed(self, texts, language):
        raise EmbedderFailed("the gateway did not embed (APIConnectionError)")


@pytest.mark.parametrize(
    ("embedder", "why"), [(None, "nothing embeds questions"), (Lost(), "the gateway did not embed")]
)
async def test_without_vectors_words_tell_and_the_report_says_so(tmp_path, embedder, why):
    found = await built(tmp_path, [FIRST, OTHER, f"{FIRST} "], Duplicates(embedder))
    assert [one.question for one in found.items] == [FIRST, OTHER]
    assert f"compared by their words alone ({why}" in markdown(found.report, 0)


async def test_a_build_rejects_what_asks_the_same_in_other_words_and_says_which(tmp_path):
    embedder = ScriptedEmbedder.by_cosine(FIRST, {OTHER: 0.95, "Where are keys kept?": 0.1})
    found = await built(tmp_path, [FIRST, OTHER, "Where are keys kept?"], Duplicates(embedder))
    assert [one.question for one in found.items] == [FIRST, "Where are keys kept?"]
    text = markdown(found.report, 0)
    assert f"| {Rejection.SAME_MEANING.value} | 1 | {OTHER} |" in text
    assert "words alone" not in text
