import asyncio

import pytest

from services.orchestrator.citing.support import Support, Verdict
from services.orchestrator.results import Passage
from tests.unit.orchestrator.citing.citing_world import passage, reviewed, rows, streamed

BACKUPS = passage(
    "Back-ups run every night, one copy is kept offline, and a restore is rehearsed every quarter.", "Security"
)
GIFTS = passage("Gifts worth up to 50 EUR from one source may be accepted. Cash is never accepted.", "Gifts")
HOTEL = passage("El precio máximo por noche es de 110 EUR en España y Portugal.", "Viajes", language="es")
PROVIDERS = rows(
    ("name", "country"), ("Limpiezas Norte", "ES"), ("Transportes Alborada", "ES"), ("Seguridad Ebro", "PT")
)


def verdict(text, *sources, question="", marks=(1,)):
    judged = Support(dict(enumerate(sources, start=1)), question).judge(text, marks)
    return [judged[mark].verdict for mark in marks]


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("Every night the back-ups run, and one copy stays offline.", BACKUPS),
        ("You may accept gifts of at most 50 EUR.", GIFTS),
        ("Cash is not accepted.", GIFTS),
        ("Hay 3 proveedores.", PROVIDERS),
        ("Two providers are in Spain.", PROVIDERS),
        ("Seguridad Ebro está en Portugal.", PROVIDERS),
    ],
)
def test_what_a_source_says_is_supported(text, source):
    assert verdict(text, source) == [Verdict.SUPPORTED]


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("Back-ups are not run every night.", BACKUPS),
        ("Back-ups run every night under SEC-018.", BACKUPS),
        ("You may accept gifts of at most 50 USD.", GIFTS),
        ("People at Iberdrola may accept gifts of at most 50 EUR.", GIFTS),
        ("In Portugal the cap is 110 USD a night.", HOTEL),
        ("Hay 7 proveedores.", PROVIDERS),
        ("Two providers are in Germany.", PROVIDERS),
    ],
)
def test_what_it_does_not_say_is_wrong(text, source):
    assert verdict(text, source) == [Verdict.WRONG]


@pytest.mark.parametrize("text", ["In Spain and Portugal a night may cost 110 EUR.", "A room costs 110 euros at most."])
def test_another_language_leaves_it_to_the_meaning(text):
    assert verdict(text, HOTEL) == [Verdict.DOUBTFUL]


def test_names_have_other_forms_in_another_language():
    london = passage("El despacho de Londres y el de Edimburgo cierran en Alemania.", language="es")
    assert verdict("The offices in London and Edinburgh are closed, and so is the one in Germany.", london) == [
        Verdict.DOUBTFUL
    ]
    assert verdict("The offices in Marseille are closed, and so is the other one.", london) == [Verdict.WRONG]


def test_a_second_mark_that_adds_nothing_is_doubtful():
    text = "Back-ups run every night, and one copy is kept offline"
    assert verdict(text, BACKUPS, GIFTS, marks=(1, 2)) == [Verdict.SUPPORTED, Verdict.DOUBTFUL]


def test_a_name_of_the_question_may_be_repeated_over_rows():
    count = rows(("count",), (3,))
    text = "Acme Logistics has 3 contracts."
    assert verdict(text, count, question="How many contracts has Acme Logistics?") == [Verdict.SUPPORTED]
    assert verdict(text, count) == [Verdict.WRONG]


def test_a_source_that_is_not_there_is_not_judged():
    assert Support({}).judge("Anything at all is said here", (1,)) == {}


def test_a_rounded_number_keeps_its_unit_and_its_source_needs_none():
    ages = rows(("priority", "age"), ("low", 66.125))
    assert verdict("Low priority is about 66 hours old.", ages) == [Verdict.SUPPORTED]
    assert verdict("Low priority is about 69 hours old.", ages) == [Verdict.WRONG]


def test_a_bound_is_no_denial():
    users = passage("Maximum number of authorized users: 10", "Account")
    assert verdict("No more than 10 authorized users are possible.", users) == [Verdict.SUPPORTED]


def test_a_number_that_is_in_nobodys_place_takes_no_mark_out_where_the_words_fit():
    assert verdict("Back-ups run every night at 03:00.", BACKUPS) == [Verdict.SUPPORTED]
    assert verdict("Up to 60 EUR from one source may be accepted as gifts.", GIFTS) == [Verdict.WRONG]


def test_a_number_that_is_wrong_takes_out_only_marks_that_add_nothing():
    text = "Every night the back-ups of 7 machines run, and one copy is kept offline"
    assert verdict(text, BACKUPS, GIFTS, marks=(1, 2))[0] is Verdict.SUPPORTED


def contract(number, text):
    return Passage(f"CT-{number}", "c", f"Contract CT-{number}", "", 1, "", "en", text)


PENALTY = "8.3 Late-delivery penalty (special condition): 2 % a month of the price of what is late."
CONTRACTS = [contract(at, PENALTY if at < 5 else "Payment is due within 30 days of receipt.") for at in range(1, 9)]


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("Clause 8.3 (in 4 of the 8 documents found): special condition, late-delivery penalty of 2 % a month", True),
        ("The late-delivery penalty of 2 % a month is in four of the contracts", True),
        ("Penalización del 2 % al mes por retraso en la entrega (en 4 de los 8 documentos encontrados)", True),
        ("The late-delivery penalty of 2 % a month appears 4 times", True),
        ("Clause 8.3 (in 4 of the 9 documents found): special condition, late-delivery penalty of 2 % a month", False),
        ("The late-delivery penalty of 2 % a month is in seven of the contracts", False),
        ("Penalización del 2 % al mes por retraso en la entrega (en 4 de los 12 documentos encontrados)", False),
        ("The late-delivery penalty of 2 % a month appears 11 times", False),
    ],
)
async def test_counts_over_the_evidence_are_computed_numbers(text, right):
    review = await reviewed(f"{text} [1][2][3][4].", *CONTRACTS)
    assert [one.kind.value for one in review.findings if one.kind.value == "number"] == ([] if right else ["number"])
    shown, _ = streamed(f"{text} [1][2][3][4].", *CONTRACTS)
    assert shown == f"{text} [1][2][3][4]."


async def test_a_number_is_told_once():
    review = await reviewed("It is 77 there. It is 77 here, too. And 77 again.", BACKUPS)
    assert [one.text for one in review.findings] == ["77"]


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0)


async def test_sources_are_read_ahead_and_those_that_come_later_too():
    sources = {1: BACKUPS, 2: rows(("n",), *((at,) for at in range(400))), 3: passage("Long. " * 900)}
    support = Support(sources)
    support.read_ahead()
    sources[4] = GIFTS
    support.read_ahead()
    await until(lambda: support.read_count == 4)
    assert [support.source(mark).text[:5] for mark in sources] == ["Back-", "n\n0\n1", "Long.", "Gifts"]


async def test_what_is_asked_before_it_was_read_ahead_is_read_at_once():
    support = Support({1: BACKUPS, 2: GIFTS})
    support.read_ahead()
    judged = support.judge("Back-ups run every night under SEC-018.", (1,))
    assert judged[1].verdict is Verdict.WRONG
    await until(lambda: support.read_count == 2)


def test_a_sentence_is_judged_anew_once_there_are_more_sources():
    sources = {1: rows(("n",), (3,))}
    support = Support(sources)
    text = "Acme Logistics has 3 contracts."
    assert support.judge(text, (1,))[1].verdict is Verdict.WRONG
    sources[2] = passage("Acme Logistics is in Leeds.")
    assert support.judge(text, (1,))[1].verdict is Verdict.SUPPORTED


def test_march_alone_is_a_month_where_it_is_written_as_one():
    season = passage("Life jackets are compulsory from October to March.")
    assert verdict("Life jackets are compulsory from October to March.", season) == [Verdict.SUPPORTED]
    assert verdict("De octubre a marzo el chaleco es obligatorio.", season) == [Verdict.DOUBTFUL]
    assert verdict("Los chalecos son obligatorios en marzo.", passage("They march on.")) == [Verdict.WRONG]
