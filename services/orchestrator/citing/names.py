"""Names in an answer, and whether a source has them, in the one language or the other."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise
from typing import Any, cast

from babel import Locale

from services.orchestrator.citing.calendar_dates import is_month
from services.orchestrator.citing.source_text import SourceText, squeeze
from services.orchestrator.citing.words import Word, content, key, words

_OPENS = re.compile(r"(?:^|[.!?:;\n\"«“”(|*#•>–—-])\s*[¿¡\"«“(*_]*$")
_NO_NAMES = frozenset(
    """monday tuesday wednesday thursday friday saturday sunday lunes martes miercoles jueves viernes sabado domingo
    yes no true false eur usd gbp euro euros ms mr mrs dr dra sr sra srta don dona prof
    ceo cfo cto coo hr rrhh it kpi sla vat iva faq""".split()
)
# At the beginning of a line, or a cell of a table.
_LABEL = re.compile(r"(?:^|(?<=[|\n]))[ \t]*(?:[-*#>•][ \t]*|\d{1,2}[.)][ \t]*)*(?P<label>[^|\n:*–—]+)(?=[|\n:*–—]|$)")
_LONGEST_LABEL = 8
_LANGUAGES = {"spanish": "es", "espanol": "es", "english": "en", "ingles": "en"}
_JOINS = frozenset(("of", "de", "del", "the", "la", "el"))
_ARTICLES = frozenset(("el", "la", "los", "las", "al", "the"))
_ROMAN = re.compile(r"[IVXLC]+$")
_LEAST_LETTERS, _LONGEST_ACRONYM = 4, 6
# Two spellings of one name in two languages: Edinburgh and Edimburgo 0.78, Algeria and Argelia 0.93.
_ALIKE = 0.75
_CONTINENTS = ("002", "009", "019", "142", "150")
_OTHER_CODES = {
    word: code
    for code, listed in {
        "EU": "ue europea europeo europeas europeos",
        "US": "eeuu usa us american americans americano americana americanos estadounidense estadounidenses",
        "GB": "uk british briton britons britanico britanica britanicos inglaterra england",
        "NL": "holanda holland",
        "CH": "swiss suizo suiza suizos",
        "MX": "mexican mexicano mexicana",
        "AU": "australian australiano australiana",
        "CA": "canadian canadiense",
        "BR": "brazilian brasileno brasilena",
        "BE": "belgian belga",
        "AT": "austrian austriaco austriaca",
        "IE": "irish irlandes irlandesa",
        "AR": "argentine argentino argentina",
    }.items()
    for word in listed.split()
}
_OTHER_NAMES = {"gb": ("granbretana", "greatbritain", "inglaterra", "england", "british", "britanic")}


# Stems of the international nonproprietary names of substances (WHO, 2018, "Stem Book"), as they end in both languages.
_SUBSTANCE = re.compile(
    r"\w{2,}(?:[iy]lamin[ae]|dramin[ae]|fenaco?|profeno?|cillin|cilina|m[iy]cin|micina|statina?|prazole?|conazole?|sartan"
    r"|dipin[oe]|olol|azepam|zolam|cortison[ae]|nidazole?|floxacino?|c[iy]clin[ae]|tidin[ae]|terol|ca[iy]n[ae]|parina?"
    r"|gliptina?|formina?|tinib|ciclovir|cetamol|codein[ae]|zodon[ae]|sulfam\w+)$"
)


def labels(text: str, found: Sequence[Word]) -> list[tuple[int, int]]:
    """Places of headings, table cells and words before a colon in which every word has a capital: they tell no name."""
    places: list[tuple[int, int]] = []
    for match in _LABEL.finditer(text):
        start, end = match.span("label")
        inside = [one for one in found if start <= one.start < end and one.text.isalpha() and content([one])]
        if 1 < len(inside) <= _LONGEST_LABEL and all(one.capitalised for one in inside):
            places.append((start, end))
    return places


def named_runs(text: str, found: Sequence[Word]) -> list[list[Word]]:
    """Words in a row that look like one name: capitals within a sentence, or two in a row at its beginning."""
    runs: list[list[Word]] = []
    last = -2
    for index, word in enumerate(found):
        if _SUBSTANCE.match(word.folded):
            runs.append([word])
            continue
        if not _may_be_name(word):
            continue
        between = found[last + 1 : index]
        if runs and last >= 0 and all(one.folded in _JOINS for one in between) and _close(text, found[last], word):
            runs[-1].append(word)
        else:
            runs.append([word])
        last = index
    titled = {one for article, one in pairwise(found) if article.folded in _ARTICLES and not one.text.isupper()}
    # `El Ayuntamiento`, `the Buyer`: who it is, by what it is.
    runs = [run for run in runs if len(run) > 1 or run[0] not in titled or _SUBSTANCE.match(run[0].folded)]
    return [
        run
        for run in runs
        if len(run) > 1
        or _SUBSTANCE.match(run[0].folded)
        or not _opens(text, run[0])
        or (run[0].text.isupper() and len(run[0].text) > 1)
    ]


def _may_be_name(word: Word) -> bool:
    return (
        word.capitalised
        and len(word.folded) > 1
        and word.text.isalpha()
        and word.folded not in _NO_NAMES
        and not _ROMAN.match(word.text)
        and not is_month(word.folded)
        and bool(content([word]))
    )


def _close(text: str, first: Word, second: Word) -> bool:
    return not re.search(r"[^\w\s]", text[first.start + len(first.text) : second.start])


def _opens(text: str, word: Word) -> bool:
    return bool(_OPENS.search(text[max(0, word.start - 8) : word.start]))


def has_name(name: str, sources: Sequence[SourceText], *, translated: bool) -> bool:
    """Whether one of the sources has the name; `translated`: in another language, where it may be spelt otherwise."""
    folded = squeeze(name)
    if any(folded in source.squeezed for source in sources):
        return True
    if any(source.language == _LANGUAGES.get(folded) for source in sources):  # `the Spanish text says`
        return True
    if name.isupper() and len(name) <= _LONGEST_ACRONYM:
        if translated or any(folded in _initials(source) for source in sources):
            return True
    start = key(folded)[:_LEAST_LETTERS]
    if len(folded) >= _LEAST_LETTERS and any(one.startswith(start) for source in sources for one in source.keys):
        return True
    if any(_says(source, other) for other in other_names(folded) for source in sources):
        return True
    return translated and any(_alike(folded, one) for source in sources for one in _capitalised(source))


def _says(source: SourceText, name: str) -> bool:
    if len(name) < _LEAST_LETTERS:  # the code of a country
        return any(word.text == name.upper() for sentence in source.sentences for word in sentence.words)
    return name in source.squeezed


def _initials(source: SourceText) -> str:
    return "".join(word.folded[0] for sentence in source.sentences for word in content(sentence.words))


def _capitalised(source: SourceText) -> Iterator[str]:
    return (word.folded for sentence in source.sentences for word in sentence.words if word.capitalised)


def _alike(first: str, second: str) -> bool:
    if abs(len(first) - len(second)) > 4 or len(second) < _LEAST_LETTERS:
        return False
    return SequenceMatcher(None, first, second).ratio() >= _ALIKE


def other_names(folded: str) -> Sequence[str]:
    """What a country, or a language and its people, is called in the other language, and its code."""
    return _gazetteer().get(_OTHER_CODES.get(folded, "").lower() or folded, ())


@lru_cache(maxsize=1)
def _gazetteer() -> dict[str, list[str]]:
    """Countries, languages for the peoples, and cities of the Unicode CLDR: each name with its equals."""
    found: dict[str, list[str]] = {}
    english, spanish = Locale("en"), Locale("es")
    for kind in ("territories", "languages"):
        in_english, in_spanish = getattr(english, kind), getattr(spanish, kind)
        for code in in_english.keys() & in_spanish.keys():
            if not (code.isalpha() or code in _CONTINENTS):
                continue
            names = [squeeze(in_english[code]), squeeze(in_spanish[code])]
            equal = [*names, *([code.lower()] if kind == "territories" and code.isalpha() else [])]
            for one in equal:
                found.setdefault(one, []).extend(other for other in equal if other != one)
            for word in words(in_english[code]) + words(in_spanish[code]):
                if len(word.folded) > 3 and word.folded not in found:
                    found[word.folded] = [name for name in names if name != word.folded]
    for code, names in _OTHER_NAMES.items():
        found[code].extend(names)
    zones: Mapping[str, Mapping[str, str]] = cast(Any, spanish.time_zones)
    known: Mapping[str, Mapping[str, str]] = cast(Any, english.time_zones)
    for zone, named in zones.items():
        here = known.get(zone, {}).get("city") or zone.rpartition("/")[2].replace("_", " ")
        there = named.get("city", here)
        if here != there:
            found.setdefault(squeeze(here), []).append(squeeze(there))
            found.setdefault(squeeze(there), []).append(squeeze(here))
    return found
