"""Finds numbers with check digits in a folded text: bank accounts, payment cards, identities of persons and companies.

The check digits are computed, so that years, prices, laws, standards and ISBNs pass.
"""

import re
from collections.abc import Iterator
from itertools import accumulate

from services.runtime.recognition.terms import Skeleton

Span = tuple[int, int]

# Length of an IBAN by country (ISO 13616 registry).
_IBAN_LENGTHS = {
    country: length
    for length, countries in {
        15: "NO", 16: "BE", 18: "DK FI FO GL NL", 19: "MK SI", 20: "AT BA EE KZ LT LU XK",
        21: "CH HR LI LV", 22: "BG BH CR DE GB GE IE ME RS", 23: "AE GI IL TL", 24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "PT", 26: "IS TR", 27: "FR GR IT MC MR SM", 28: "AL AZ CY DO GT HU LB PL", 29: "BR EG PS QA UA",
        30: "JO KW MU", 31: "MT SC", 32: "LC",
    }.items()
    for country in countries.split()
}  # fmt: skip
_DNI_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"
_DNI = re.compile(
    r"(?<![0-9A-Za-z])([XYZKLM]?)[ .-]?(\d{7,8}|\d{1,2}\.\d{3}\.\d{3}|(?:\d ){6,7}\d)([ .-]{0,2})([A-Za-z])"
    r"(?![0-9A-Za-z])",
    re.IGNORECASE,
)
_CIF = re.compile(r"(?<![0-9A-Za-z])([A-HJNP-SUVW])[ -]?(\d{7})[ -]?([0-9A-J])(?![0-9A-Za-z])")
_AFFILIATION = re.compile(r"(?<![0-9A-Za-z])(\d{2})[ /-]?(\d{8})[ /-]?(\d{2})(?![0-9A-Za-z])")
_SSN = re.compile(r"(?<![\w-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])")
# Ranges that issuers of cards have, and the lengths that go with some.
_CARDS = re.compile(
    r"4|5[1-5]|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)|3[47]|6(?:011|5|4[4-9]|22)|35(?:2[89]|[3-8]\d)|3(?:0[0-5]|[68])"
)
_CARD_LENGTHS = {"34": (15,), "37": (15,), "30": (14,), "36": (14,), "38": (14,), "4": (13, 16, 19), "6": (16, 19)}
_MIN_CARD_DIGITS = 13
_ACCOUNT_WEIGHTS = (1, 2, 4, 8, 5, 10, 9, 7, 3, 6)
_GROUPS = re.compile(r"(?<![0-9A-Za-z])\d+(?:\)?[ .\-_/]{0,2}\(?\d+)*(?![0-9A-Za-z])")
_MAX_GROUPS = 20
# Of all that is looked for, from a telephone to an account.
_MIN_DIGITS, _MAX_DIGITS = 9, 20
_MAX_ISBN_CHARS = 80


def ibans(text: str) -> Iterator[Span]:
    """IBANs of any country, whatever stands between their characters (ISO 13616, modulo 97)."""
    skeleton = Skeleton.of(text)
    letters = skeleton.text.upper()
    for start in range(len(letters) - 14):
        end = start + _IBAN_LENGTHS.get(letters[start : start + 2], 0)
        if not (start < end <= len(letters) and letters[start + 2 : start + 4].isdecimal() and skeleton.gaps[start]):
            continue
        iban = letters[start:end]
        closed = end == len(letters) or skeleton.gaps[end]
        if closed and iban.isascii() and iban.isalnum() and _modulo_97(iban[4:] + iban[:4]) == 1:
            yield skeleton.places[start], skeleton.places[end - 1] + 1


def _modulo_97(text: str) -> int:
    return int("".join(str(int(character, 36)) for character in text)) % 97


def numbers(text: str) -> Iterator[tuple[str, tuple[int, ...], Span]]:
    """Digits, sizes of their groups, and span, of every row of neighbouring groups of 9 to 20 digits; no ISBNs."""
    for match in _GROUPS.finditer(text):
        groups = [found.span() for found in re.finditer(r"\d+", text[match.start() : match.end()])]
        if match.end() - match.start() <= _MAX_ISBN_CHARS and _is_isbn(
            [match.group()[start:end] for start, end in groups], text[match.end() : match.end() + 2]
        ):
            continue
        sizes = [end - start for start, end in groups]
        digits = re.sub(r"\D", "", match.group())
        ends = list(accumulate(sizes, initial=0))  # of each group, among the digits alone
        for first in range(len(groups)):
            for last in range(first, min(first + _MAX_GROUPS, len(groups))):
                count = ends[last + 1] - ends[first]
                if count > _MAX_DIGITS:
                    break
                if count >= _MIN_DIGITS:
                    span = match.start() + groups[first][0], match.start() + groups[last][1]
                    yield digits[ends[first] : ends[last + 1]], tuple(sizes[first : last + 1]), span


def _is_isbn(groups: list[str], after: str) -> bool:
    digits = "".join(groups)
    if len(digits) == 13 and digits.startswith(("978", "979")):
        return sum(int(d) * (1, 3)[i % 2] for i, d in enumerate(digits)) % 10 == 0
    total = sum((10 - i) * int(d) for i, d in enumerate(digits)) if len(digits) <= 10 else 0
    if len(digits) == 9 and after.strip("- ").upper() == "X":
        return total % 11 == 1
    return len(digits) == 10 and len(groups) in (1, 4) and total % 11 == 0


def payment_cards(text: str) -> Iterator[Span]:
    """Numbers of cards in a range that issuers have, with the check digit of ISO/IEC 7812 (Luhn)."""
    for digits, _, span in numbers(text):
        if len(digits) < _MIN_CARD_DIGITS or digits[0] not in "23456":
            continue
        lengths = next((found for prefix, found in _CARD_LENGTHS.items() if digits.startswith(prefix)), (16,))
        if len(digits) in lengths and _CARDS.match(digits) and _luhn(digits) == 0:
            yield span


def _luhn(digits: str) -> int:
    doubled = (int(d) * (1 + i % 2) for i, d in enumerate(reversed(digits)))
    return sum(value - 9 * (value > 9) for value in doubled) % 10


def spanish_accounts(text: str) -> Iterator[Span]:
    """Código cuenta cliente: entity, branch, two control digits modulo 11, account."""
    for digits, _, span in numbers(text):
        if len(digits) == 20 and digits.count("0") < 15:
            if _account_control("00" + digits[:8]) + _account_control(digits[10:]) == digits[8:10]:
                yield span


def _account_control(digits: str) -> str:
    control = 11 - sum(weight * int(d) for weight, d in zip(_ACCOUNT_WEIGHTS, digits, strict=True)) % 11
    return {10: "1", 11: "0"}.get(control, str(control))


def national_ids(text: str) -> Iterator[Span]:
    """Spanish DNI, NIE and the special NIFs of persons, with their letter."""
    for match in _DNI.finditer(text):
        prefix, number, blank, letter = match.groups()
        digits = re.sub(r"\D", "", number)
        # "12345678 a precio": a lower-case letter after a blank is a word.
        if len(digits) + len(prefix) != 8 or (letter.islower() and " " in blank):
            continue
        value = int({"X": "0", "Y": "1", "Z": "2"}.get(prefix.upper(), "") + digits)
        if _DNI_LETTERS[value % 23] == letter.upper():
            yield match.span()


def company_ids(text: str) -> Iterator[Span]:
    """Spanish CIF: letter, seven digits, control digit or letter."""
    for match in _CIF.finditer(text):
        digits = match.group(2)
        doubled = sum(sum(divmod(2 * int(d), 10)) for d in digits[::2])
        control = -(doubled + sum(map(int, digits[1::2]))) % 10
        if match.group(3) in (str(control), "JABCDEFGHI"[control]):
            yield match.span()


def social_security(text: str) -> Iterator[Span]:
    """Spanish affiliation numbers (province, number, control modulo 97) and the SSN of the United States."""
    for match in _AFFILIATION.finditer(text):
        province, number, control = match.groups()
        if 1 <= int(province) <= 66 and int(province + number) % 97 == int(control):
            yield match.span()
    yield from (match.span() for match in _SSN.finditer(text))
