"""Written forms of the verbs, nouns and adjectives that the gate knows."""

from collections.abc import Iterator

# Form, tense ("p" past or done, "n" else), person ("3": someone else does it, "1": we do, "" says nothing).
Form = tuple[str, str, str]

_VOWELS = "aeiou"


def english_verb(base: str, irregular: list[str]) -> Iterator[Form]:
    """Forms of an English verb; `irregular` are its past and its participle, the same if there is one."""
    yield base, "n", ""
    yield _third(base), "n", ""
    for stem in _doubled(base):
        yield (stem[:-1] if stem.endswith("e") and not stem.endswith("ee") else stem) + "ing", "n", "ing"
    for form in irregular:
        yield form, "p", ""
    if not irregular:
        for stem in _doubled(base):
            if stem.endswith("y") and stem[-2] not in _VOWELS:
                yield stem[:-1] + "ied", "p", ""
            else:
                yield stem + ("d" if stem.endswith("e") else "ed"), "p", ""


def _third(base: str) -> str:
    if base.endswith("y") and base[-2] not in _VOWELS:
        return base[:-1] + "ies"
    return base + ("es" if base.endswith(("s", "sh", "ch", "x", "o")) else "s")


def _doubled(base: str) -> Iterator[str]:
    """The stem before an ending; "cancel" and "submit" may or must double their consonant."""
    if base[-1] not in _VOWELS + "wxy" and base[-2] in _VOWELS and base[-3:-2] not in tuple(_VOWELS):
        yield base + base[-1]
    yield base


def english_plural(noun: str) -> str:
    """The regular plural."""
    if noun.endswith("y") and noun[-2:-1] not in tuple(_VOWELS):
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "sh", "ch", "x")) else "s")


def spanish_verb(infinitive: str, other_stem: str, participle: str) -> Iterator[Form]:
    """Forms of a Spanish verb that questions use; `other_stem` is the one of the stressed present."""
    stem, ending = infinitive[:-2], infinitive[-2:]
    vowel = "a" if ending == "ar" else "e"
    strong = other_stem or stem
    yield infinitive, "n", "inf"
    yield infinitive + "se", "n", "inf"
    yield stem + ("ando" if vowel == "a" else "iendo"), "n", "inf"
    done = participle or stem + ("ado" if vowel == "a" else "ido")
    for form in (done, done + "s", done[:-1] + "a", done[:-1] + "as"):
        yield form, "p", "done"
    for root in {stem, strong}:
        yield root + vowel, "n", "3"
        yield root + vowel + "n", "n", "3"
        soft = _spelled(root, "e" if vowel == "a" else "a")
        yield soft + ("e" if vowel == "a" else "a"), "n", "3"
        yield soft + ("en" if vowel == "a" else "an"), "n", "3"
        yield root + "o", "n", "i"
    yield stem + {"ar": "amos", "er": "emos", "ir": "imos"}[ending], "?", "1"
    yield infinitive + "á", "f", "3"
    yield infinitive + "an", "f", "3"
    yield infinitive + "emos", "f", "1"
    # Preterite: "pidió", "pidieron" have the stem of the present where it ends in -ir.
    past = strong if ending == "ir" and strong.endswith(("pid", "elig")) else stem
    yield past + ("ó" if vowel == "a" else "ió"), "p", "3"
    yield past + ("aron" if vowel == "a" else "ieron"), "p", "3"
    yield _spelled(stem, "e") + ("é" if vowel == "a" else "í"), "p", "i"


def _spelled(stem: str, before: str) -> str:
    """The same sound before another vowel: pag-ar, pagu-e; cruz-ar, cruc-e; venc-er, venz-a."""
    if before == "e":
        for end, other in (("g", "gu"), ("c", "qu"), ("z", "c")):
            if stem.endswith(end):
                return stem[: -len(end)] + other
    elif stem.endswith("c"):
        return stem[:-1] + "z"
    return stem


def spanish_plural(noun: str) -> str:
    """The regular plural."""
    if noun[-1] in _VOWELS:
        return noun + "s"
    if noun[-1] not in "nlrdzsjy":
        return noun + "s" if noun[-1].isalpha() else noun
    return (noun[:-1] + "c" if noun.endswith("z") else noun) + "es"


def singular(word: str, language: str, kept: frozenset[str]) -> str:
    """The word without the ending of the plural, the same way for every word."""
    if word in kept or len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if language == "en":
        if word.endswith("ies") and len(word) > 4:
            return word[:-3] + "y"
        return word[:-2] if word.endswith(("sses", "shes", "ches", "xes", "zes")) else word[:-1]
    if word.endswith("es") and word[-3] not in _VOWELS:
        return word[:-3] + "z" if word.endswith("ces") else word[:-2]
    return word[:-1]
