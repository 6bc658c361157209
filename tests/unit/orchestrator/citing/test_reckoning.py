import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.orchestrator.citing.citing_world import numbers_of, passage, streamed


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("The first life of the abbey lasted 682 years [1].", "The abbey was founded in 1153 and closed in 1835."),
        ("La baja se alargó 18 días [1].", "La baja acababa el 12 de mayo. Se prolongó hasta el 30 de mayo."),
        ("It was held up for fifteen minutes [1].", "At 6:40 there was smoke. At 6:55 the tunnel was closed."),
        ("El tiempo se acortó tres horas y media [1].", "El tiempo era de 9,2 horas en enero y de 5,7 horas en junio."),
        ("A new parent gets 21 weeks [1].", "The law gives 19 weeks. The company adds two further weeks."),
        (
            "The machine has five grease points [1].",
            "Grease points: spindle, tailstock, bearing, left and right guide.",
        ),
        ("Fifteen per cent were rejected [1].", "Of the 40 pallets delivered, 6 were rejected."),
        ("Three quarters of the members voted [1].", "Of the 480 members 360 voted."),
        ("Four sieges are recorded and three of them failed [1].", "It was besieged in 1521, 1642, 1706 and 1811."),
        ("Nearly 3,000 more came [1].", "There were 17,860 visitors, after 15,020 the year before."),
        ("Dura dos horas más [1].", "La batería vieja duraba nueve horas y la nueva dura once horas."),
    ],
)
async def test_what_can_be_counted_or_computed_from_the_source_keeps_its_mark(answer, text):
    source = passage(text)
    assert streamed(answer, source) == (answer, [])
    assert await numbers_of(answer, source) == []


@pytest.mark.parametrize(
    ("answer", "text", "number"),
    [
        (
            "The first life of the abbey lasted 692 years [1].",
            "The abbey was founded in 1153 and closed in 1835.",
            "692",
        ),
        ("La baja se alargó 28 días [1].", "La baja acababa el 12 de mayo. Se prolongó hasta el 30 de mayo.", "28"),
        ("It was held up for 25 minutes [1].", "At 6:40 there was smoke. At 6:55 the tunnel was closed.", "25"),
        ("The machine has seven grease points [1].", "Grease points: spindle, bearing and guide.", "seven"),
        ("A quarter of the vans is electric [1].", "The fleet has 150 vans, 30 of them electric.", "A quarter"),
    ],
)
async def test_what_cannot_is_told(answer, text, number):
    assert await numbers_of(answer, passage(text)) == [number]


async def test_a_number_may_be_computed_from_the_cited_source_and_another_of_the_run():
    answer = "Its restoration ended six years after that [2]."
    sources = [passage("The lighthouse went dark in 1989."), passage("The restoration ended in 1995.")]
    assert streamed(answer, *sources) == (answer, [])


@given(st.lists(st.integers(0, 10**9), max_size=60))
async def test_no_source_of_numbers_keeps_the_check_busy(numbers):
    source = passage(", ".join(map(str, numbers)))
    streamed("It takes 17 days and 1,234 more, three quarters of 99 EUR [1].", source)
