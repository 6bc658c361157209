import re

from services.evaluation.retrieval import identifiers
from services.evaluation.retrieval.collection import Passage, Question
from services.evaluation.retrieval.trivial import shared_words


def test_the_baseline_counts_different_words_and_orders_equals_by_id():
    passages = [
        Passage("c", "the lift of a wing wing wing"),
        Passage("a", "lift"),
        Passage("b", "lift"),
        Passage("d", "nothing"),
        Passage("e", "of a kind", title="Wing LIFT"),
    ]
    found = shared_words(passages, [Question("q", "Lift of the wing", frozenset()), Question("r", "?", frozenset())], 3)
    assert found == {"q": ["c", "e", "a"], "r": []}


def test_identifiers_are_the_same_each_time():
    assert identifiers.load() == identifiers.load()
    assert identifiers.load().sha256() == identifiers.load().sha256()


def test_a_known_identifier_is_in_each_relevant_passage_and_in_no_other():
    collection = identifiers.load()
    code = re.compile(r"(?:CT-|ERR-|[A-Z]{2}-)[\d-]+(?:-[A-C])?|ES\d{20}|[ABEG]\d{8}")
    seen = 0
    for question in collection.questions:
        named = code.findall(question.text)
        if not named:
            continue  # written otherwise: in lower case, without hyphen
        seen += 1
        holders = {
            one.passage_id for one in collection.passages if re.search(rf"\b{named[0]}\b", f"{one.title}\n{one.text}")
        }
        assert question.relevant <= holders
        if question.kind.startswith(identifiers.UNKNOWN):
            assert not holders
        elif question.kind != "clause":
            assert question.relevant == holders
    assert seen > 300


def test_a_clause_is_asked_of_one_passage_of_its_contract():
    collection = identifiers.load()
    texts = {one.passage_id: f"{one.title} {one.text}" for one in collection.passages}
    clauses = [one for one in collection.questions if one.kind == "clause"]
    assert len(clauses) == 40
    for one in clauses:
        (passage,) = one.relevant
        clause, contract = re.search(r"(\d\.\d)", one.text)[1], re.search(r"CT-[\d-]+", one.text)[0]
        assert f"{contract} {clause} " in texts[passage]


def test_both_languages_and_near_misses_of_each_identifier_are_there():
    collection = identifiers.load()
    assert {one.language for one in collection.passages} == {"es", "en"}
    errors = {one.source for one in collection.passages if one.source.startswith("ERR")}
    for code in {one.source for one in collection.passages if one.source.startswith("ERR")}:
        near = [each for each in errors if sum(a != b for a, b in zip(code, each, strict=True)) in (1, 2, 3)]
        assert near
