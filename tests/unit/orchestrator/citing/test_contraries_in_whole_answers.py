"""What a sentence gives to the wrong name, date or party, or says too widely; and its right neighbours."""

import json
from pathlib import Path

import pytest

from services.orchestrator.citing.alignment import Alignment
from services.orchestrator.citing.claims import claims, sentences
from services.orchestrator.citing.figures import figures
from services.orchestrator.citing.names import named_runs
from services.orchestrator.citing.opposing import Opposed, oppositions
from services.orchestrator.citing.source_text import read_text
from services.orchestrator.citing.words import words

_WRITTEN = Path(__file__).parents[3] / "data" / "citations" / "written" / "contrary.jsonl"


def _found(said: str, source: str) -> set[Opposed]:
    return {one.kind for one in oppositions(Alignment(said, [one.text for one in read_text(source).sentences]))}


@pytest.mark.parametrize(
    ("said", "source", "kind"),
    [
        ("Orio won the race", "The race was won by the boat Hibaika. Orio came second.", Opposed.SLOT),
        ("The call closes on 14 July", "The call closes on 26 May. Results come out on 14 July.", Opposed.SLOT),
        ("La jornada arranca el 13 de septiembre", "La jornada va del 17 de junio al 13 de septiembre.", Opposed.SLOT),
        ("Appointments are made on Fridays", "Appointments are made on Tuesdays.", Opposed.SLOT),
        ("Sella bought Navia", "Navia bought Sella in 2018.", Opposed.ROLES),
        ("El obispo vendió la villa al conde", "El conde vendió la villa al obispo.", Opposed.ROLES),
        ("Anyone may park in the yard", "Residents may park in the yard if they show the card.", Opposed.SWEEPING),
        ("Los cambios se hacen antes de las 20:00", "Los cambios se hacen después de las 20:00.", Opposed.ORDER),
        ("La piscina admite niños de hasta seis años", "La piscina admite niños a partir de seis años.", Opposed.BOUND),
    ],
)
def test_a_sentence_that_changes_who_when_or_on_what_condition_is_told(said: str, source: str, kind: Opposed) -> None:
    assert kind in _found(said, source)


@pytest.mark.parametrize(
    ("said", "source"),
    [
        ("Hibaika took the race, with Orio second", "The race was won by the boat Hibaika. Orio came second."),
        ("The call is open until 26 May", "The call closes on 26 May. Results come out on 14 July."),
        ("La jornada acaba el 13 de septiembre", "La jornada va del 17 de junio al 13 de septiembre."),
        ("Sella was bought by Navia", "Navia bought Sella in 2018."),
        ("El convenio lo firma el director", "El director firma el convenio."),
        ("The Lessor takes care of repairs", "Repairs fall to the Lessor."),
        ("Anyone with the card may park in the yard if they show it", "Residents may park if they show the card."),
        ("Desde 1987 no pasan coches por el puente", "El puente se abrió en 1912. En 1987 se cerró a los coches."),
        ("Asbestos is not taken at the centre", "The centre opens at 9:00. Paint is accepted. Asbestos is refused."),
    ],
)
def test_the_same_in_other_words_is_told_to_be_no_contrary(said: str, source: str) -> None:
    assert _found(said, source) <= {Opposed.DENIAL}


def test_no_right_answer_of_the_written_set_is_told_to_say_the_contrary_for_sure() -> None:
    blamed: list[str] = []
    caught = wrong = 0
    for line in _WRITTEN.read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        if one["half"] != "dev":
            continue
        texts = {source["n"]: read_text(source["text"]) for source in one["sources"]}
        for claim in (claim for sentence in sentences(one["answer"]) for claim in claims(sentence) if claim.marks):
            cited = [part.text for mark in claim.marks for part in texts[mark].sentences]
            sure = any(found.kind is not Opposed.DENIAL for found in oppositions(Alignment(claim.text, cited)))
            planted = bool(one["wrong"]) and claim.text in one["wrong"][0]["sentence"]
            wrong, caught = wrong + planted, caught + (planted and sure)
            if sure and not planted:
                blamed.append(claim.text)
    assert blamed == []
    assert caught >= 0.6 * wrong


def test_the_active_substance_of_a_medicine_is_read_as_a_name() -> None:
    text = "El principio activo es la difenhidramina"
    assert [[word.text for word in run] for run in named_runs(text, words(text))] == [["difenhidramina"]]


@pytest.mark.parametrize(
    ("one", "other"), [("250 ml", "0.25 litres"), ("2 kW", "2000 watts"), ("500 mg", "0,5 gramos"), ("3 m²", "3 m2")]
)
def test_the_same_quantity_in_another_unit_of_its_family_measures_the_same(one: str, other: str) -> None:
    assert figures(f"It takes {one} a day")[0].measure == figures(f"It takes {other} a day")[0].measure


def test_a_percentage_behind_a_month_is_no_day_of_it() -> None:
    assert [str(one.value) for one in figures("In March 13 % of them fell for it") if one.unit == "%"] == ["13"]
