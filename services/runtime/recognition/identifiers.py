"""Finds identifiers of persons, accounts and inner networks, and secrets, in a folded text of bounded length."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from services.runtime.recognition import check_digits
from services.runtime.recognition.check_digits import Span, numbers

_EMAIL = re.compile(
    r"[A-Za-z0-9._%+'-]{1,64}(?: ?[\[(<{] ?(?:at|arroba|@) ?[\])>}] ?| arroba |@)"
    r"[A-Za-z0-9-]{1,63}(?:(?: ?[\[(<{] ?(?:dot|punto|\.) ?[\])>}] ?| punto | dot |\.)[A-Za-z0-9-]{2,63}){1,4}",
    re.IGNORECASE,
)
# The user of every repository, and the names that are kept for examples (RFC 2606).
_NOBODYS_EMAIL = re.compile(r"git@|.*@example\.(?:com|org|net)$", re.IGNORECASE)
# After a number, what makes it an amount and not a telephone.
_AMOUNT = re.compile(
    r"\s*(?:[€$£%]|(?:euros?|eur|usd|dolares|dollars?|habitantes|people|personas|toneladas|tons?|kwh?|mwh|km2?|kg|ha|"
    r"millones|million)\b)",
    re.IGNORECASE,
)
_MOBILES = ((9,), (3, 3, 3), (3, 2, 2, 2), (3, 6), (1,) * 9)
_LANDLINES = (*_MOBILES, (2, 3, 2, 2), (2, 3, 4))
_IPV4 = re.compile(r"(?<![\w.])(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?![\w]|\.\d)(/\d)?")
_IPV6_LOCAL = re.compile(r"(?<![\w:])f[cd][0-9a-f]{2}:(?:[0-9a-f]{0,4}:){1,7}[0-9a-f]{0,4}(?![\w:])", re.IGNORECASE)
_VERSION = re.compile(r"(?:\bv|\bversi?on(?:es)?|\bversions?|\brelease|\bbuild|\bfirmware)\.?\s*$", re.IGNORECASE)
# Addresses that half the world's routers and manuals have say nothing of anyone.
_WELL_KNOWN = {"192.168.0.1", "192.168.1.1", "192.168.1.254", "192.168.100.1", "10.0.0.1", "172.17.0.1"}
_HOST = re.compile(
    r"(?<![\w.-])[a-z0-9_](?:[a-z0-9_.-]{0,200}[a-z0-9_])?\.(?:local|internal|intranet|corp|lan|localdomain|home\.arpa)"
    r"(?![\w-]|\.\w)",
    re.IGNORECASE,
)
_PUBLIC_HOSTS = re.compile(
    r"(?:host|gateway|kubernetes)\.docker\.internal$|metadata\.google\.internal$|cluster\.local$"
)
_UNC = re.compile(r"\\\\[\w.-]{2,63}\\[\w$.-]+")
_SECRETS = (
    re.compile(r"(?<![A-Za-z0-9])(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}"),
    re.compile(
        r"(?<![A-Za-z0-9])(?:gh[pousr]_|github_pat_|glpat-|hf_|npm_|pypi-|tvly-|xox[abeprs]-|dop_v1_)[\w-]{10,}"
    ),
    re.compile(r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    re.compile(r"(?<![A-Za-z0-9])AIza[\w-]{35}"),
    re.compile(r"(?<![A-Za-z0-9])eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"),
    re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----"),
    re.compile(r"[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,100}:[^\s/@]{1,100}@", re.IGNORECASE),
    re.compile(r"(?<![0-9A-Za-z])[0-9A-Fa-f]{32,}(?![0-9A-Za-z])"),
)
_ASSIGNED = re.compile(
    r"(?<![a-z])(?:password|passwd|pwd|contrasena|clave|secret|token|api[ _-]?key)\s*[:=]\s*(\S{6,})", re.IGNORECASE
)
_TOKEN = re.compile(r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{24,}={0,2}(?![A-Za-z0-9+/_=-])")


def find_identifiers(text: str) -> Iterator[tuple[str, Span]]:
    """Kind and span of each identifier in a folded text. They may overlap."""
    for kind, finders in _FINDERS.items():
        for find in finders:
            for span in find(text):
                yield kind, span


def _emails(text: str) -> Iterator[Span]:
    return (match.span() for match in _EMAIL.finditer(text) if not _NOBODYS_EMAIL.match(match.group()))


def _phones(text: str) -> Iterator[Span]:
    for digits, shape, (start, end) in numbers(text):
        before = text[max(0, start - 2) : start]
        if digits.endswith("0000") or before.rstrip().endswith(("€", "$", "£")) or _AMOUNT.match(text, end):
            continue
        abroad = before.rstrip("(").endswith("+") and digits[0] != "0" and 9 <= len(digits) <= 15
        # 0034 …, 00 34 …
        dialled = digits[:2] == "00" and digits[2:3] not in ("", "0") and shape[0] != 3 and 11 <= len(digits) <= 17
        if abroad or dialled or _is_spanish(digits, shape) or _is_american(text, digits, shape, start):
            yield start, end


def _is_spanish(digits: str, shape: Sequence[int]) -> bool:
    if len(digits) == 11 and digits.startswith("34"):
        digits, shape = digits[2:], shape[1:] if shape[0] == 2 else (shape[0] - 2, *shape[1:])
    if len(digits) != 9:
        return False
    mobile = digits[0] == "6" or "71" <= digits[:2] <= "74"
    landline = digits[0] in "89" and digits[1] != "0"  # 80x and 90x are lines that companies publish
    return (mobile and tuple(shape) in _MOBILES) or (landline and tuple(shape) in _LANDLINES)


def _is_american(text: str, digits: str, shape: Sequence[int], start: int) -> bool:
    if tuple(shape) != (3, 3, 4) or digits[0] in "01" or digits[3] in "01":
        return False
    # With blanks alone it could be any three numbers.
    return text[start - 1 : start] == "(" or text[start + 3] == text[start + 7] != " "


def _addresses(text: str) -> Iterator[Span]:
    for match in _IPV4.finditer(text):
        a, b, c, d = (int(match.group(i)) for i in range(1, 5))
        private = a == 10 or (a == 172 and 16 <= b < 32) or (a, b) == (192, 168)
        is_network = d == 0 and (match.group(5) or c == 0)
        if not private or max(b, c, d) > 255 or is_network or f"{a}.{b}.{c}.{d}" in _WELL_KNOWN:
            continue
        if not _VERSION.search(text, max(0, match.start() - 20), match.start()):
            yield match.span()
    yield from (match.span() for match in _IPV6_LOCAL.finditer(text))


def _hosts(text: str) -> Iterator[Span]:
    for match in _HOST.finditer(text):
        if not _PUBLIC_HOSTS.search(match.group().lower()):
            yield match.span()
    yield from (match.span() for match in _UNC.finditer(text))


def _secrets(text: str) -> Iterator[Span]:
    for pattern in _SECRETS:
        yield from (match.span() for match in pattern.finditer(text))
    for match in _ASSIGNED.finditer(text):
        if any(map(str.isdecimal, match.group(1))):
            yield match.span()
    for match in _TOKEN.finditer(text):
        if _looks_random(match.group().rstrip("=")):
            yield match.span()


def _looks_random(token: str) -> bool:
    """Whether upper case, lower case and digits follow each other as in a key, and not as in a compound word."""
    kinds = ["a" if c.islower() else "A" if c.isupper() else "0" if c.isdecimal() else "-" for c in token]
    if min(map(kinds.count, "aA0")) < 2:
        return False
    changes = sum(a != b for a, b in pairwise(kinds))
    return changes >= 0.45 * len(kinds) and kinds.count("-") <= len(kinds) / 8


_FINDERS: Mapping[str, Sequence[Callable[[str], Iterator[Span]]]] = {
    "email": (_emails,),
    "bank_account": (check_digits.ibans, check_digits.spanish_accounts),
    "payment_card": (check_digits.payment_cards,),
    "national_id": (check_digits.national_ids, check_digits.company_ids, check_digits.social_security),
    "phone": (_phones,),
    "private_address": (_addresses,),
    "internal_host": (_hosts,),
    "secret": (_secrets,),
}
