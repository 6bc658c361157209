"""BM25 term weights: the words of a text, stemmed in its language, its codes and clause numbers whole."""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from qdrant_edge import Bm25, Bm25Config, DisabledStemmer, StopwordsSet

# ISO 639-1 in full. A language without a stemmer below is indexed without stemming rather than refused: documents come
# in any language.
_ISO_639_1 = frozenset(
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en "
    "eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv "
    "ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne "
    "ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st "
    "su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu".split()
)
# Languages that the engine has stop words for, most of them with a stemmer too.
_WITH_STEMMER = frozenset("ar az eu bn ca zh da nl en fi fr de el he hu id it kk ne no pt ro ru sl es sv tg tr".split())

# Marks are removed after Latin letters only: in Cyrillic, Arabic or Hindi they make another letter.
_LATIN_MARKS = re.compile(r"(?<=[a-z])[\u0300-\u036f]+")
# CT-2025-0001, v2.10, A/12, 8.3.1: letters and digits joined without a space. Those with a digit are codes.
# Starts at the start of a word and never steps back, so that a long run of letters costs linear time.
_JOINED = re.compile(r"(?<![^\W_])[^\W_]++(?:[-./_:]++[^\W_]++)++")
_DIGIT = re.compile(r"\d")
_JOINER = re.compile(r"[-./_:]+")
# Stands for the joiner inside a term: a letter (dental click), or the engine would cut there, and one that no code has.
_GLUE = "\u01c0"
_LONGEST_CODE = 64

# ERR4032 is ERR-4032: letters, then digits.
_LETTERS_DIGITS = re.compile(r"\b([a-z]{2,6})(\d{2,12})\b")
# ERR 4032 too: in a text when written in capitals, in a search always. "en 2025" of a text thus makes no code.
_SPACED = re.compile(r"\b([A-Z]{2,6}) (\d{2,12})\b")
_SPACED_QUERY = re.compile(r"\b([A-Za-z]{2,6}) (\d{2,12})\b")
# Clause 12, cláusula 12, § 12: one term, so that it stands out among all the other twelves. Marks are gone here.
_NUMBER = r"[.\s]{0,3}(?:n[.o]{0,2}\s)?(\d{1,4}(?:\.\d{1,4}){0,5}[a-z]?)\b"
_CLAUSES = (
    (
        "clause",
        re.compile(
            r"(?:(?<!§)§{1,2}|\b(?:clausulas?|clauses?|sections?|secc?ion(?:es)?|secao|sec|apartados?))" + _NUMBER
        ),
    ),
    ("art", re.compile(r"\b(?:art|arts|articulos?|articles?|artigos?|artikel|articolo)" + _NUMBER)),
)
# Scripts that are written without spaces, and Korean, whose words carry their particles: without cuts a sentence would
# be one term. Pairs of neighbours, as in Lucene's CJKAnalyzer.
_UNSPACED = re.compile(
    "[\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7a3\U00020000-\U0003134f]+"
    "|[\u0e00-\u0e7f]+|[\u0e80-\u0eff]+|[\u1000-\u109f]+|[\u1780-\u17ff]+"
)
# Soft hyphens and other signs without width stand inside words; hyphens of all kinds are one.
_SIGNS = {ord(sign): None for sign in "\u00ad\u200b\u200c\u200d\u2060\ufeff"} | {
    ord(sign): "-" for sign in "\u2010\u2011\u2012\u2013\u2212"
}

# Stemmers know these endings with their accent only, and half of the people who search write none. After folding,
# `penalizacion` and `penalizaciones` would otherwise be different terms.
_ENDINGS: dict[str, tuple[tuple[re.Pattern[str], str], ...]] = {
    "es": (
        (re.compile(r"(?<=[au])cion\b"), "ción"),
        (re.compile(r"logia(?=s?\b)"), "logía"),
    ),
    "pt": (
        (re.compile(r"(?<=[a-z])[cs]oes\b"), "ção"),
        (re.compile(r"(?<=[a-z])[cs]ao\b"), "ção"),
        (re.compile(r"(?<=[ai])veis\b"), "vel"),
        (re.compile(r"avel\b"), "ável"),
        (re.compile(r"ivel\b"), "ível"),
    ),
}


class UnknownLanguage(ValueError):
    """The language is not one of ISO 639-1."""


@dataclass(frozen=True)
class TermWeights:
    """Weights by term; both have the same length. `truncated`: the tail of the text was not weighed."""

    indices: list[int]
    values: list[float]
    truncated: bool = False


def weigh_query(text: str, language: str) -> TermWeights:
    """Weight 1 for each term of a search. Raises UnknownLanguage; an empty language means no stemming."""
    vector = _model(language).embed_query(normalise(text, language, query=True))
    return TermWeights(vector.indices, vector.values)


def weigh_document(text: str, language: str) -> TermWeights:
    """BM25 term frequencies (k1 = 1.2, b = 0.75, 256 terms expected). Raises UnknownLanguage."""
    vector = _model(language).embed_document(normalise(text, language))
    return TermWeights(vector.indices, vector.values)


def check_language(language: str) -> None:
    """Raises UnknownLanguage unless `language` is empty or one of ISO 639-1."""
    if language and language not in _ISO_639_1:
        raise UnknownLanguage(f"`{language}` is not an ISO 639-1 code such as es or en")


def normalise(text: str, language: str, *, query: bool = False) -> str:
    """The text as it is cut into terms: lower case, without accents, its codes repeated at the end as one term each.

    A code is found by itself and by its parts, and a document that holds it whole comes before one that holds parts.
    """
    plain = unicodedata.normalize("NFKD", text.translate(_SIGNS))
    folded = unicodedata.normalize("NFC", _LATIN_MARKS.sub("", plain.lower()))
    codes = _codes(folded)
    codes += [_GLUE.join(pair).lower() for pair in (_SPACED_QUERY if query else _SPACED).findall(plain)]
    folded = _UNSPACED.sub(_pairs, folded)
    for ending, restored in _ENDINGS.get(language, ()):
        folded = ending.sub(restored, folded)
    return " ".join([folded, *codes])


def _codes(folded: str) -> list[str]:
    joined: list[str] = _JOINED.findall(folded)
    codes = [_JOINER.sub(_GLUE, one) for one in joined if len(one) <= _LONGEST_CODE and _DIGIT.search(one)]
    codes += [_GLUE.join(pair) for pair in _LETTERS_DIGITS.findall(folded)]
    for name, clause in _CLAUSES:
        codes += [f"{name}{_GLUE}{_JOINER.sub(_GLUE, number)}" for number in clause.findall(folded)]
    return codes


def _pairs(run: re.Match[str]) -> str:
    # Marks above and below stay out: the engine would cut there.
    letters = [sign for sign in run.group() if unicodedata.category(sign)[0] != "M"]
    pairs = [one + other for one, other in pairwise(letters)]
    return f" {' '.join(pairs or letters)} "


@lru_cache(maxsize=64)
def _model(language: str) -> Bm25:
    check_language(language)
    if language in _WITH_STEMMER:
        return Bm25(Bm25Config(language=language, lowercase=True))
    return Bm25(Bm25Config(stemmer=DisabledStemmer(), stopwords=StopwordsSet(), lowercase=True))
