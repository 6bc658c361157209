"""What the guard looks for, and by what: identifiers of persons and accounts in a text of bounded length."""

import ipaddress
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from services.runtime.recognition.folding import fold
from services.runtime.recognition.identifiers import find_identifiers

# Ours and the recognisers' names; what else they know (hosts, secrets) is not of persons.
_KINDS = {
    "email": "email",
    "bank_account": "iban",
    "payment_card": "card",
    "national_id": "national_id",
    "phone": "phone",
}
_IP = re.compile(r"(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}|(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4})(?![\w:]|\.\d)")
_VERSION = re.compile(r"(?:\bv|\bversi?on(?:es)?|\bversions?|\brelease|\bbuild|\bfirmware)\.?\s*$", re.IGNORECASE)
_VERSION_CHARS = 20
# Most numbers are years, dates, amounts and counts: they are not looked at any further.
_DATE = re.compile(r"(?<!\d)\d{1,2}[/.-]\d{1,2}[/.-](?:19|20)\d\d(?!\d)|(?<!\d)(?:19|20)\d\d-\d\d-\d\d(?!\d)")
_MAY_HOLD = re.compile(
    r"@|(?i:arroba|[\[(<{]at[\])>}])|(?:\d[\W_]{0,4}){8}|(?<![0-9A-Za-z])[A-Za-z][ .-]?(?:\d[\W_]{0,4}){7}"
    r"|\d\.\d+\.\d+\.\d|:[0-9A-Fa-f]{0,4}:"
)


class _Folds(dict[int, str]):
    """For `str.translate`: what a character is when folded. Made once for each character."""

    def __missing__(self, code: int) -> str:
        folded = fold(chr(code)).text
        if len(self) < 20_000:
            self[code] = folded
        return folded


_FOLDS = _Folds()
# Of cards and of accounts (CCC), besides groups of four.
_GROUPED = ((4, 6, 5), (4, 6, 4), (4, 4, 2, 10), (8, 2, 10))


class Finding(NamedTuple):
    """A part of a text, and what it is."""

    kind: str
    start: int
    end: int


class Finder(Protocol):
    """Finds identifiers in a text of some hundred characters, in order and without overlaps."""

    # False: every sentence is looked at; True: only what stands near digits and `@`.
    near_digits: bool

    def find(self, text: str) -> Sequence[Finding]:
        """What there is in `text`."""
        ...


class NumberFinder:
    """E-mail and IP addresses, telephones, IBANs, cards, and the numbers of persons and companies (ES, US).

    Check digits are computed where there are any. However they are written: other digits and letters that look alike,
    blanks and marks between the groups. Not found: names, streets, and what is written out in words.
    """

    near_digits = True

    def find(self, text: str) -> Sequence[Finding]:
        """What there is in `text`."""
        plain = text.translate(_FOLDS)
        if not _MAY_HOLD.search(_DATE.sub("", plain)):
            return ()
        folded = fold(text)  # the same, and where each character came from
        found: list[Finding] = []
        for kind, (start, end) in find_identifiers(plain):
            if kind not in _KINDS:
                continue
            before = plain[start - 1 : start]
            first, past = folded.span(start - (kind == "phone" and before == "+"), end)
            if _is_plausible(kind, text[first:past].lstrip("+"), before):
                found.append(Finding(_KINDS[kind], first, past))
        found += [Finding("ip", *folded.span(*span)) for span in _ip_addresses(plain)]
        return without_overlaps(found)


def without_overlaps(found: Sequence[Finding]) -> list[Finding]:
    """Findings in order; those that overlap become one, of the kind of the longest."""
    merged: list[tuple[Finding, int]] = []
    for finding in sorted(found, key=lambda one: (one.start, -one.end)):
        size = finding.end - finding.start
        if merged and finding.start < merged[-1][0].end:
            last, longest = merged[-1]
            kind = finding.kind if size > longest else last.kind
            merged[-1] = Finding(kind, last.start, max(last.end, finding.end)), max(size, longest)
        else:
            merged.append((finding, size))
    return [finding for finding, _ in merged]


def _is_plausible(kind: str, said: str, before: str) -> bool:
    """Whether groups of digits belong together: in a table of numbers many rows would pass for a card or telephone."""
    if kind == "phone":  # 601.23 456.78 are two numbers
        return "\n" not in said and ("." not in said or " " not in said or before == "+")
    if kind != "payment_card" and (kind != "bank_account" or any(map(str.isalpha, said))):
        return True
    sizes = tuple(len(group) for group in re.findall(r"\d+", said))
    marks = set(re.findall(r"\D+", said))
    return len(marks) <= 1 and "\n" not in said and (len(sizes) == 1 or set(sizes[:-1]) == {4} or sizes in _GROUPED)


def _ip_addresses(text: str) -> Iterator[tuple[int, int]]:
    for match in _IP.finditer(text):
        try:
            address = ipaddress.ip_address(match.group())
        except ValueError:
            continue
        if address.is_loopback or address.is_unspecified or address.is_multicast:
            continue
        if not _VERSION.search(text, max(0, match.start() - _VERSION_CHARS), match.start()):
            yield match.span()
