"""Finds what this run knows from inside the company only, so that a web query does not carry it out."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from services.orchestrator.results import Passage, Passages, Rows

MAX_TERMS = 64
# Of what was found last; more would cost time and name nothing that the model still has before it.
_MAX_CHARS = 60_000
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,200}@[\w-]{1,200}(?:\.[\w-]{1,200}){1,8}")
# What the web tool takes. Of longer ones, such as a file in Base64, the beginning stands for the whole.
_MAX_TERM_CHARS = 200
# A run of letters, digits and what joins them in codes and amounts: `CT-2025-0091`, `ES12/3456`, `8,312,456.07`.
_TOKEN = re.compile(r"[^\W_]+(?:(?:[-_./:#‐‑–]|,(?=\d{3}(?!\d)))[^\W_]+)*")
# Fewer digits are units, models and versions rather than one contract, one customer or one amount.
_MANY_DIGITS = re.compile(r"\d{4}|(?:\d\D*){6}")
_LEAST_AMOUNT_DIGITS, _LEAST_SIGNIFICANT_DIGITS = 6, 4
_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}(?:[-/.]\d{1,2})?(?:t[\d:.]+(?:z|[+-]\d\d:?\d\d)?)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}"
    r"|\d{4}[-/](?:19|20)\d\d|(?:[qths][1-4]|[1-4][qts]|fy)[-/.]?\d{2,4}|\d{4}[-/.]?(?:[qths][1-4]|[1-4][qts])"
    r"|(?:19|20)\d\d[^\W\d_]{1,2}",
    re.IGNORECASE,
)
_VERSION = re.compile(r"v?\d{1,2}(?:\.\d{1,2}){1,3}", re.IGNORECASE)
_AMOUNT = re.compile(r"[\d.,]+")
# A few cents more or less are the same figure.
_CENTS = re.compile(r"[.,]\d{1,2}$")
# Numbers of standards, laws and weaknesses are public, whoever quotes them: as `ISO-27001`, or after `Ley`.
_STANDARDS = "iso|iec|une|din|ieee|rfc|cve|cwe|nist|boe|celex|ecli|doi|isbn|issn|covid|sars|ifrs|niif"
_STANDARD = re.compile(rf"(?:{_STANDARDS})(?![^\W\d_])", re.IGNORECASE)
_PUBLIC_WORD = re.compile(
    rf"(?:{_STANDARDS}|en|ansi|astm|directive|directiva|regulation|reglamento|ley|decreto|rd|orden|law|act|ue|eu|ce|ec"
    r"|nº|no|number|número)",
    re.IGNORECASE,
)


def internal_terms(found: Sequence[Passages | Rows], said: Iterable[str], query: str) -> tuple[str, ...]:
    """Codes, e-mail addresses and exact figures of documents and rows, those that stand in `query` first.

    `said`: earlier answers of the conversation, which were made from such. Words and names are no terms: other
    companies may be asked about. Nor are dates, versions, round figures, and numbers of laws and standards. A code
    stands in the query however it is spaced and joined there. At most MAX_TERMS: the others are for whoever looks for
    them in another form.
    """
    asked = _squeezed(query)
    terms: dict[str, str] = {}
    left = _MAX_CHARS
    for text in (*_texts(found), *said):
        for term in _identifiers(text[:left]):
            terms.setdefault(_squeezed(term[:_MAX_TERM_CHARS]), term[:_MAX_TERM_CHARS])
        left -= len(text)
        if left <= 0:
            break
    inside = [term for squeezed, term in terms.items() if squeezed in asked]
    return (*inside, *(term for squeezed, term in terms.items() if squeezed not in asked))[:MAX_TERMS]


def _identifiers(text: str) -> Iterator[str]:
    emails = list(_EMAIL.finditer(text))
    yield from (one[0] for one in emails)
    taken = {place for one in emails for place in range(*one.span())}
    before = ""
    for match in _TOKEN.finditer(text):
        token, previous, before = match[0], before, match[0]
        if match.start() in taken or not _MANY_DIGITS.search(token) or _PUBLIC_WORD.fullmatch(previous):
            continue
        if _AMOUNT.fullmatch(token):
            token = _CENTS.sub("", token)
        if _is_identifier(token):
            yield token


def _is_identifier(token: str) -> bool:
    if _STANDARD.match(token) or _DATE.fullmatch(token) or _VERSION.fullmatch(token):
        return False
    if not _AMOUNT.fullmatch(token):
        return True
    number = re.sub(r"\D", "", token)
    return len(number) >= _LEAST_AMOUNT_DIGITS and len(number.rstrip("0")) >= _LEAST_SIGNIFICANT_DIGITS


def _squeezed(text: str) -> str:
    """Letters and digits alone, in one form: `CT-2025-0091` and `c t 2025 0091` are the same."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))


def _texts(found: Sequence[Passages | Rows]) -> Iterator[str]:
    """The newest first."""
    for one in reversed(found):
        match one:
            case Passages():
                yield from (text for passage in one.passages for text in _of_passage(passage))
            case Rows():
                yield from (str(value) for row in one.rows for value in row if value is not None)


def _of_passage(passage: Passage) -> Sequence[str]:
    return passage.text, passage.title, passage.section, passage.document_id, passage.source
