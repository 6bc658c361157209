"""Keeps internal data out of search queries, which leave the building.

Found: the tenant's terms and those that the caller marks, in any case, accent, Unicode form, spacing, look-alike or
common digit-for-letter disguise; identifiers of persons, accounts and inner networks, and secrets; and all of these in
base64, hex, percent or escape encoding. Not found: paraphrase and translation, names that no list holds, other
encodings and ciphers (ROT13, base32, reversed text), base64 that is split over words, and what is spread over several
queries. So the list is a net under a model that means no harm; a tenant whose questions must not leave is `sovereign`.
"""

import base64
import contextlib
import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote_plus

from services.runtime.recognition.folding import fold
from services.runtime.recognition.identifiers import find_identifiers
from services.runtime.recognition.terms import find_terms, says_term
from services.runtime.tenants import Web

_MAX_ROUNDS = 8
_MAX_DEPTH = 2  # encodings inside of encodings
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{6,}={0,2}")
_HEX = re.compile(r"(?<![0-9A-Za-z])(?:0x)?((?:[0-9a-fA-F]{2}[:\s]?){4,})")


@dataclass(frozen=True)
class Verdict:
    """What becomes of a query. `query` is what may be sent, empty when refused; `kinds` says what was found."""

    action: Literal["pass", "redact", "refuse"]
    query: str
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Finding:
    kind: str
    start: int
    end: int


def inspect(query: str, web: Web, marked: Sequence[str] = ()) -> Verdict:
    """The verdict on `query` under the tenant's rules; `marked` are further terms that the caller knows as internal."""
    if web.internal_data == "allow":
        return Verdict("pass", query)
    terms = (*web.internal_terms, *marked)
    findings = list(_findings(query, terms, _MAX_DEPTH))
    if not findings:
        return Verdict("pass", query)
    kinds = {finding.kind for finding in findings}
    text = query
    # What is left may say a term anew where something was taken out of its middle.
    for _ in range(_MAX_ROUNDS if web.internal_data == "redact" else 0):
        text = _without(text, findings)
        findings = list(_findings(text, terms, _MAX_DEPTH))
        kinds |= {finding.kind for finding in findings}
        if not findings:
            break
    if findings or sum(map(str.isalnum, text)) < 2:
        return Verdict("refuse", "", tuple(sorted(kinds)))
    return Verdict("redact", text, tuple(sorted(kinds)))


def says_internal_term(text: str, web: Web) -> bool:
    """Whether a text of any kind, such as the path of a URL, says one of the tenant's terms, encoded or not."""
    if web.internal_data == "allow" or not web.internal_terms:
        return False
    parts = (unquote_plus(text), text)
    return any(
        found.kind == "internal_term" for part in parts for found in _findings(part, web.internal_terms, _MAX_DEPTH)
    )


def _findings(text: str, terms: Sequence[str], depth: int) -> Iterator[_Finding]:
    folded = fold(text)
    for start, end in find_terms(folded, terms):
        yield _Finding("internal_term", *folded.span(start, end))
    for kind, (start, end) in find_identifiers(folded.text):
        yield _Finding(kind, *folded.span(start, end))
    hidden = list(_decoded(text)) if depth else []
    # All at once first: most of what looks like an encoding is none.
    if hidden and _hidden_kinds("\n".join({plain for _, _, plain in hidden}), terms, depth - 1):
        for start, end, plain in hidden:
            yield from (_Finding(kind, start, end) for kind in _hidden_kinds(plain, terms, depth - 1))


def _hidden_kinds(text: str, terms: Sequence[str], depth: int) -> set[str]:
    kinds = {finding.kind for finding in _findings(text, terms, depth)}
    return kinds | ({"internal_term"} if says_term(fold(text), terms) else set[str]())


def _decoded(text: str) -> Iterator[tuple[int, int, str]]:
    """Parts of the text that could be an encoding of another, with that other."""
    for match in re.finditer(r"\S{6,}", text):
        token = match.group()
        for plain in (unquote_plus(token), html.unescape(token), _ESCAPE.sub(_character, token)):
            if plain != token:
                yield *match.span(), plain
    for match in _HEX.finditer(text):
        # What stands before it may have been read as hex too: "de" is a word, and a byte.
        yield *match.span(), _unhexed(match.group(1)).decode(errors="ignore")
    for match in _BASE64.finditer(text):
        raw = _unbased(match.group())
        charset = "utf-16-le" if raw.count(0) > len(raw) // 3 else "utf-8"
        with contextlib.suppress(UnicodeDecodeError):
            yield *match.span(), raw.decode(charset)


def _character(match: re.Match[str]) -> str:
    return chr(int(match.group(1) or match.group(2), 16))


def _unhexed(text: str) -> bytes:
    digits = re.sub(r"[^0-9a-fA-F]", "", text)
    return bytes.fromhex(digits[: len(digits) // 2 * 2])


def _unbased(text: str) -> bytes:
    digits = text.rstrip("=").replace("-", "+").replace("_", "/")
    # One digit too many says nothing.
    return base64.b64decode(digits[: len(digits) - (len(digits) % 4 == 1)] + "==")


def _without(text: str, findings: Sequence[_Finding]) -> str:
    kept = list(text)
    for finding in findings:
        kept[finding.start : finding.end] = " " * (finding.end - finding.start)
    return " ".join("".join(kept).split())
