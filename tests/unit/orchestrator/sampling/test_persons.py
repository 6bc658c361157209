"""Names of persons: how many are found, what is none, and that nothing breaks on any text."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.events import CallStarted, Finish, Finished, Shown, Text, Timings
from services.orchestrator.model import Usage
from services.orchestrator.results import Passage
from services.orchestrator.sampling.anonymous import anonymous
from services.orchestrator.sampling.finished_answer import answer_of
from services.orchestrator.sampling.persons import People

FOLDER = Path("tests/data/persons")


def marked(line):
    """The text of a line, and where its names are."""
    text, spans, start = "", [], 0
    for part in re.split(r"([{}])", line.replace("\\n", "\n")):
        if part == "{":
            start = len(text)
        elif part == "}":
            spans.append((start, len(text)))
        else:
            text += part
    return text, spans


def found(*texts):
    """Who stands where in the last of the texts."""
    people = People()
    for text in texts:
        people.learn(text)
    return [(person, texts[-1][start:end]) for person, (start, end) in people.spans(texts[-1])]


def counted(name):
    """(names, those of which every long word is found, spans that are no name)."""
    names = whole = wrong = 0
    for line in (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        text, spans = marked(line)
        people = People()
        people.learn(text)
        got = [span for _, span in people.spans(text)]
        covered = {place for start, end in got for place in range(start, end)}
        for start, end in spans:
            words = [one for one in re.finditer(r"[^\W\d_][\w'’-]{3,}", text) if start <= one.start() < end]
            names += 1
            whole += all(set(range(*one.span())) <= covered for one in words)
        wrong += sum(not any(first < end and start < past for start, end in spans) for first, past in got)
    return names, whole, wrong


@pytest.mark.parametrize("name", ["tuning", "held_out"])
def test_nearly_all_names_are_found_and_hardly_anything_else(name):
    names, whole, wrong = counted(name)
    assert names >= 40
    assert whole / names >= 0.95
    assert wrong <= 1


def test_one_person_has_one_number_however_it_is_called_and_whichever_text_it_is_in():
    texts = "Lo firmó Marta Iglesias Prado.", "Iglesias y Luis Ferrer vieron a la Sra. Iglesias Prado; Ferrer calló."
    people = found(*texts)
    assert [text for _, text in people] == ["Iglesias", "Luis Ferrer", "Iglesias Prado", "Ferrer"]
    marta, luis, again, he = (person for person, _ in people)
    assert (marta, luis) == (again, he)
    assert marta != luis


def test_two_persons_with_one_family_name_are_two():
    ana, luis = found("Ana Ruiz y Luis Ruiz")
    assert ana[0] != luis[0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Talleres García, S.L. y Bodegas Martínez",
        "Martin Electrical Services Ltd",
        "San Andrés y Calle de Alberto Aguilera",
        "Contrato CT-2025-0042, cláusula 8.3, Anexo B. Precios",
        "Will you mark the box in May? Grace is a period.",
        "select amount from contracts where provider = 'Kabelhuis'",
    ],
)
def test_companies_streets_months_and_words_are_no_persons(text):
    assert found(text) == []


@given(st.text(), st.text(alphabet="AaÁñ .,'’-\nJorge Sr.DrGarcíay"))
def test_spans_are_in_order_apart_and_within_any_text(other, text):
    people = People()
    people.learn(other)
    people.learn(text)
    past = 0
    for person, (start, end) in people.spans(text):
        assert past <= start < end <= len(text)
        assert person >= 0
        past = end


def test_in_an_answer_a_person_has_one_name_in_question_text_evidence_and_calls():
    end = Finished("ans_1", Finish.ANSWERED, "", 2, Usage(10, 5), Timings(1, 0.5, 0, 0.1), 0)
    passage = Passage("doc", "1", "Minutes", "m.pdf", 1, "1", "en", "Present: Marta Iglesias Prado and Luis Ferrer.")
    happened = [
        CallStarted(1, "c1", "vector_search", '{"query": "what Ferrer said"}'),
        Text("Yes, Iglesias met Mr. Ferrer [1]."),
        Shown(1, passage, True),
    ]
    found = anonymous(answer_of("Did Marta Iglesias meet Ferrer?", happened, end))
    assert found.question == "Did [PERSON_1] meet [PERSON_2]?"
    assert found.answer == "Yes, [PERSON_1] met Mr. [PERSON_2] [1]."
    assert found.passages[0].text == "Present: [PERSON_1] and [PERSON_2]."
    assert found.calls[0].arguments_json == '{"query": "what [PERSON_2] said"}'
