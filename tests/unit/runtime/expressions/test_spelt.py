"""Numbers written out in words: whatever a writer of numbers writes is read back, in both languages."""

from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.runtime.expressions.quantities import comparisons, quantities
from services.runtime.expressions.spelt import spelt_numbers

SPANISH = (
    "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete "
    "dieciocho diecinueve veinte veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete "
    "veintiocho veintinueve"
).split()
SPANISH_TENS = "treinta cuarenta cincuenta sesenta setenta ochenta noventa".split()
SPANISH_HUNDREDS = (
    "ciento doscientos trescientos cuatrocientos quinientos seiscientos setecientos ochocientos novecientos".split()
)
ENGLISH = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
ENGLISH_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


def in_spanish(number):
    """The number in words, below a billion (10^12), as the Academy writes it."""
    for size, one, many in ((10**6, "un millón", "millones"), (1000, "mil", "mil")):
        count, rest = divmod(number, size)
        if count:
            head = one if count == 1 else f"{shortened(in_spanish(count))} {many}"
            return f"{head} {in_spanish(rest)}" if rest else head
    if number >= 100:
        count, rest = divmod(number, 100)
        return "cien" if number == 100 else f"{SPANISH_HUNDREDS[count - 1]} {in_spanish(rest)}".removesuffix(" cero")
    if number >= 30:
        count, rest = divmod(number, 10)
        return f"{SPANISH_TENS[count - 3]} y {SPANISH[rest]}" if rest else SPANISH_TENS[count - 3]
    return SPANISH[number]


def shortened(words):
    """`Veintiún mil`, `treinta y un millones`: no `uno` before a noun."""
    return (
        f"{words[:-9]}veintiún"
        if words.endswith("veintiuno")
        else words.removesuffix("o")
        if words.endswith("y uno")
        or words.endswith("ciento uno")
        or words.endswith("os uno")
        or words.endswith("l uno")
        else words
    )


def in_english(number, *, joined):
    """The number in words; `joined`: with `and` before the last two digits, and commas between groups."""
    for name, size in (("trillion", 10**12), ("billion", 10**9), ("million", 10**6), ("thousand", 1000)):
        count, rest = divmod(number, size)
        if count:
            head = f"{in_english(count, joined=joined)} {name}"
            if not rest:
                return head
            link = (" and " if rest < 100 else ", ") if joined else " "
            return f"{head}{link}{in_english(rest, joined=joined)}"
    if number >= 100:
        count, rest = divmod(number, 100)
        link = " and " if joined else " "
        return (
            f"{ENGLISH[count]} hundred{link}{in_english(rest, joined=joined)}" if rest else f"{ENGLISH[count]} hundred"
        )
    if number >= 20:
        count, rest = divmod(number, 10)
        return f"{ENGLISH_TENS[count - 2]}-{ENGLISH[rest]}" if rest else ENGLISH_TENS[count - 2]
    return ENGLISH[number]


# Small and large numbers alike. Neither one, which is an article, nor eleven: `once` is English too.
NUMBERS = st.integers(0, 12).flatmap(lambda digits: st.integers(2, 10**digits + 2)).filter(lambda one: one != 11)


@given(NUMBERS.filter(lambda number: number < 10**12))
def test_every_number_in_spanish_words_is_read_back(number):
    (found,) = quantities(f"contratos de {in_spanish(number)} euros")
    assert (found.value, found.unit) == (number, "EUR")


@given(NUMBERS, st.booleans())
def test_every_number_in_english_words_is_read_back(number, joined):
    text = f"contracts of {in_english(number, joined=joined)} dollars"
    (found,) = quantities(text)
    assert (found.value, found.unit) == (number, "USD")


@given(NUMBERS.filter(lambda one: one < 10**9), NUMBERS.filter(lambda one: one < 10**9))
def test_two_spanish_numbers_of_a_range_are_two(low, high):
    found = quantities(f"de {in_spanish(low)} a {in_spanish(high)} personas")
    assert [one.value for one in found] == [low, high]


@given(NUMBERS, NUMBERS)
def test_two_english_numbers_of_a_range_are_two(low, high):
    found = quantities(f"from {in_english(low, joined=False)} to {in_english(high, joined=False)} people")
    assert [one.value for one in found] == [low, high]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("mil doscientos millones", 1_200_000_000),
        ("1,2 mil millones", 1_200_000_000),
        ("1.200 millones", 1_200_000_000),
        ("un millón y medio", 1_500_000),
        ("millón y medio", 1_500_000),
        ("3 millones y medio", 3_500_000),
        ("dos coma cinco millones", 2_500_000),
        ("medio millón", 500_000),
        ("un cuarto de millón", 250_000),
        ("tres cuartos de millón", 750_000),
        ("dos mil quinientos", 2_500),
        ("ciento veinte mil", 120_000),
        ("veintiún mil", 21_000),
        ("dos y medio", Decimal("2.5")),
        ("una docena", 12),
        ("media docena", 6),
        ("dos docenas", 24),
        ("un billón", 10**12),
        ("a hundred and twenty thousand", 120_000),
        ("one and a half million", 1_500_000),
        ("a million and a half", 1_500_000),
        ("two point five million", 2_500_000),
        ("half a million", 500_000),
        ("a quarter of a million", 250_000),
        ("three quarters of a million", 750_000),
        ("twenty-five hundred", 2_500),
        ("one thousand, two hundred and five", 1_205),
        ("a dozen", 12),
        ("half a dozen", 6),
        ("two dozen", 24),
        ("1.2bn", 1_200_000_000),
        ("2½ million", 2_500_000),
        ("5 trillion", 5 * 10**12),
        ("twenty twenty-five", 2025),
    ],
)
def test_fractions_scales_and_dozens_are_read(text, value):
    (found,) = quantities(f"era de {text} / it was")
    assert found.value == value


@pytest.mark.parametrize("text", ["un", "una", "one", "once", "a", "millones de euros", "docenas de cajas", "half"])
def test_words_that_count_nothing_by_themselves_are_no_numbers(text):
    assert quantities(f"es {text}") == []


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("five and ten", [5, 10]),
        ("siete y diez", [7, 10]),
        ("two, three and four", [2, 3, 4]),
        ("one thousand and five thousand", [1000, 5000]),
        ("tanto por ciento de veinte", [20]),
    ],
)
def test_what_stands_side_by_side_is_not_added(text, values):
    assert [one.value for one in quantities(text)] == values


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("between five and ten", 5, 10),
        ("entre 5 y 10 millones", 5_000_000, 10_000_000),
        ("entre treinta y cinco y cuarenta", 35, 40),
        ("between one hundred and twenty and two hundred", 120, 200),
        ("between one hundred and fifty", 100, 50),
        ("between twenty and thirty thousand", 20_000, 30_000),
        ("between 1 and 5,000", 1, 5_000),
        ("entre 500 y 1.500", 500, 1_500),
    ],
)
def test_a_range_has_two_ends(text, low, high):
    (found,) = comparisons(text)
    assert (found.operator, found.quantity.value, found.upper.value) == ("between", low, high)


@given(
    st.lists(st.sampled_from("un y mil cien dos millones medio coma a and half hundred million five point -".split()))
)
def test_reading_never_fails_and_goes_forward(words):
    text = " ".join(words)
    found = list(spelt_numbers(text))
    assert all(one.start < one.end <= len(text) for one in found)
    assert all(one.end <= other.start for one, other in pairwise(found))
