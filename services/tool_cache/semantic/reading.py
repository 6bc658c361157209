"""Reads the tokens of a question as items: numbers, dates, known words and phrases; all else as it was written."""

from collections.abc import Container, Sequence
from datetime import date

from services.tool_cache.semantic.dates import DateReader
from services.tool_cache.semantic.inflection import singular
from services.tool_cache.semantic.quantities import number_at
from services.tool_cache.semantic.tokens import Token
from services.tool_cache.semantic.vocabulary import Item, Words, vocabulary

_CLOSING = "áéíóú"
_OPENED = str.maketrans(_CLOSING, "aeiou")
# A firm's name may be made of known words: "Vendor Solutions Ltd" is not "Supplier Solutions Ltd".
_FIRMS = set("ltd limited inc llc plc corp co gmbh ag bv nv srl spa sl sa slu sau sll scl oy ab kg".split())
_FIRM_WORDS = 5
_BEFORE_IS = set("what who where when how why that it there here he she which".split())
_ASKING_OPENINGS = set("what which que cual cuales qué".split())
_COPULAS = set("is are was were es son está estan era eran fue fueron hay".split())
_RELATIVES = ("that", "which", "who", "whose", "que", "cuyo", "cuya", "cuyos", "cuyas")
# Openings that may be the beginning of a noun: "list price", "all risk insurance", "lista de espera".
_NOUNS_TOO = ("list", "show", "all", "every", "of", "lista", "listar", "de", "muestra")
_CURRENCIES = ("euro", "dollar", "usd", "gbp", "dolar")
_ACRONYMS = set("vat iva eur usd gbp".split())
# Endings of nouns that are no one: "approval", "renovación"; and those that are someone all the same.
_ABSTRACT = {
    "en": ("tion", "sion", "ment", "ness", "ity", "ance", "ence", "ship", "ism", "age", "ure", "ing", "al", "cy"),
    "es": ("cion", "sion", "dad", "miento", "aje", "ura", "encia", "ancia", "ismo", "ez"),
}
_BODIES = set(
    "management government administration organisation organization association institution corporation agency "
    "authority university community entity party federation delegation foundation parliament department animal "
    "institucion organizacion asociacion administracion universidad comunidad entidad sociedad corporacion agencia "
    "delegacion fundacion direccion federacion autoridad juez prefectura magistratura".split()
)
_ARTICLES = {"en": {"the", "a", "an"}, "es": {"el", "la", "los", "las", "un", "una"}}
# Another thing with another article.
_TWO_GENDERS = {
    one + end
    for one in "capital orden frente corte cura parte policia guardia editorial pendiente radio margen cometa coma "
    "busca doblez clave vocal central comun bateria cabeza camara espada fiscal general guia moral papa "
    "terminal trompeta vigia colera".split()
    for end in ("", "s", "es")
}
_SAME_SIGNS = {"€": "euro", "$": "dollar", "%": "%", "percent": "%"}


def read(tokens: Sequence[Token], language: str, today: date) -> list[Item]:
    """The items of a question in a known language."""
    return _Reader(tokens, language, today).items()


class _Reader:
    def __init__(self, tokens: Sequence[Token], language: str, today: date) -> None:
        self._tokens = tokens
        self._vocabulary = vocabulary(language)
        self._language = language
        self._dates = DateReader(tokens, language, today)
        self._firm = _in_firm_names(tokens)
        # Whether only openings came before, and whether one of them asks ("what", "cuáles").
        self._opening, self._asked = True, False

    def items(self) -> list[Item]:
        items: list[Item] = []
        at = 0
        while at < len(self._tokens):
            found, end = self._opened(at) if self._opening else (None, at)
            if found is None:
                found, end = self._next(at, items)
            if found.kind == "number" and items and items[-1].value in _CURRENCIES:
                items.insert(-1, found)
            elif found.kind != "drop":
                items.append(found)
            at = end
        return items

    def _opened(self, at: int) -> tuple[Item | None, int]:
        """An opening or a question at the beginning. Yes or no is asked by what stands first."""
        words = self._vocabulary
        if self._tokens[at].kind == "break":
            return Item("drop", ""), at + 1
        asked = self._longest(words.questions, at)
        opened = self._longest(words.openings, at)
        if opened and opened[0][-1] in _NOUNS_TOO and not self._lists(opened[1]):
            opened = None
        exists = self._longest(words.phrases, at)
        if exists and (asked is None or exists[1] > asked[1]):
            for item in words.phrases[exists[0]]:
                if item.kind == "question":
                    self._opening = False
                    return item, exists[1]
        if asked and not self._counts_one(asked[0], asked[1]) and (opened is None or asked[1] >= opened[1]):
            self._opening = False
            return words.questions[asked[0]], asked[1]
        if opened:
            asks = opened[0][0] in _ASKING_OPENINGS
            self._asked |= asks
            return Item("asked", "") if asks else words.openings[opened[0]], opened[1]
        self._opening = False
        form = self._forms(at)[0]
        does = self._asked and form in words.verbs and form not in words.words and not words.verbs[form].noun_too
        if not does and (form not in words.asking or self._tokens[at].name):
            return None, at
        # "What does it cover?" is not "Does it cover?", nor "what it covers".
        if self._asked and form in _COPULAS:
            return None, at
        return Item("question", "what" if self._asked else "yes"), at

    def _lists(self, at: int) -> bool:
        """Whether several things follow: "list suppliers" and "all contracts", not "list price" or "all risk cover"."""
        words = self._vocabulary
        several = False
        for token in self._tokens[at:]:
            form, known = token.fold, words.words.get(token.fold)
            if form in words.dropped or form in ("all", "every", "todos", "todas"):
                return True
            known_noun = known is not None and known.kind == "word"
            ends = (
                form in _RELATIVES or (form,) in words.phrases or (several and form in words.verbs and not known_noun)
            )
            if ends or token.kind == "break":
                break
            if several:
                return self._language == "es" or form.endswith("ed")
            if form.startswith(("price", "precio")) or token.kind not in ("word", "number"):
                return False
            several = form.endswith("s") and not form.endswith(("ss", "us", "is")) and token.kind == "word"
            if several and known is not None and known.kind == "adjective":
                several = False
        return several

    def _counts_one(self, phrase: Words, end: int) -> bool:
        """Whether "número de" is the number of a thing, as in "número de contrato"."""
        if phrase[-1] != "de":
            return False
        behind = [token.fold for token in self._tokens[end:] if token.fold not in self._vocabulary.dropped]
        found = next((word for word in behind if word in self._vocabulary.words and word not in ("total",)), "s")
        return self._vocabulary.words[found].kind == "word" and not found.endswith("s") if found != "s" else False

    def _next(self, at: int, items: list[Item]) -> tuple[Item, int]:
        token = self._tokens[at]
        if token.kind in ("quote", "code") and (found := self._dates.at(at)) is None:
            return Item("word", f"={token.fold}", acts=True), at + 1
        if token.kind != "break" and (found := self._dates.at(at)) is not None:
            return Item("date", found[0]), found[1]
        phrase = self._phrase(at, items)
        if phrase is not None:
            return phrase
        if (number := number_at(self._tokens, at, self._language)) is not None:
            return Item("number", number[0]), number[1]
        if token.kind == "break":
            return Item("break", "/" if token.text == "/" else ","), at + 1
        if token.kind == "symbol":
            return Item("word", _SAME_SIGNS.get(token.text, token.text)), at + 1
        return self._word(at, items), at + 1

    def _phrase(self, at: int, items: list[Item]) -> tuple[Item, int] | None:
        if self._is_name(at):
            return None
        found = self._longest(self._vocabulary.phrases, at)
        while found is not None:
            phrase, end = found
            items_found = sorted(self._vocabulary.phrases[phrase], key=lambda item: item.kind != "compare")
            for item in items_found:
                if item.kind != "question" and (item.kind != "compare" or self._counts(end)):
                    return item, end
            found = self._longest(self._vocabulary.phrases, at, shorter_than=len(phrase))
        return None

    def _counts(self, at: int) -> bool:
        """Whether a number stands here, with or without a sign of currency before it."""
        while at < len(self._tokens) and (
            self._tokens[at].kind == "symbol" or self._tokens[at].fold in ("eur", "usd", "gbp")
        ):
            at += 1
        return (
            at < len(self._tokens)
            and number_at(self._tokens, at, self._language) is not None
            and (self._dates.at(at) is None or self._tokens[at].kind == "number")
        )

    def _word(self, at: int, items: list[Item]) -> Item:
        token, words, form = self._tokens[at], self._vocabulary, self._forms(at)[0]
        if token.fold in ("'s", "'"):
            # "what's", or "Acme's"
            asks = at > 0 and self._tokens[at - 1].fold in _BEFORE_IS
            return Item("aux", "be") if asks else Item("drop", "")
        if self._is_name(at) or self._firm[at]:
            return self._unknown(token)
        if form in words.dropped:
            return self._gendered(at) or self._dropped(form, items)
        if relative := self._relative(at, items):
            return relative
        return self._known(at, items) or self._unknown(token)

    def _gendered(self, at: int) -> Item | None:
        """The article that alone tells "el capital" from "la capital"."""
        form, behind = self._forms(at)[0], self._forms(at + 1)[0] if at + 1 < len(self._tokens) else ""
        if self._language != "es" or form not in ("el", "la", "los", "las") or behind not in _TWO_GENDERS:
            return None
        return Item("word", f"={form}", acts=True)

    def _dropped(self, form: str, items: list[Item]) -> Item:
        """An article begins another phrase; else nothing is left of it."""
        before = items[-1] if items else Item("drop", "")
        # "vitamin a" and "grupo a" are not "vitamin" and "grupo".
        if form == "a" and before.kind in ("word", "adjective", "number"):
            return Item("word", "a", acts=True)
        begins = before.kind in ("word", "verb") and not before.value.startswith("_")
        return Item("edge" if begins and form in _ARTICLES[self._language] else "drop", "")

    def _known(self, at: int, items: list[Item]) -> Item | None:
        words = self._vocabulary
        for key in self._forms(at):
            if key in words.verbs:
                read = self._verb(words.verbs[key], at, items)
                if key not in words.words or (read.kind == "verb" and read.noun_too):
                    return read
            if key in words.words:
                return words.words[key]
        if self._language == "es" and self._forms(at)[1] == "que":
            return Item("relative" if items else "drop", "")
        return None

    def _relative(self, at: int, items: list[Item]) -> Item | None:
        """The words "that", "which" and "who" behind a noun; "that" before one points at it."""
        form = self._forms(at)[0]
        if self._language != "en" or form not in ("that", "which", "who"):
            return None
        behind_noun = bool(items) and items[-1].kind in ("word", "date") and not items[-1].value.startswith("_")
        return Item("relative", "") if behind_noun or form != "that" else None

    def _verb(self, verb: Item, at: int, items: list[Item]) -> Item:
        """A form that is a noun too is a verb only where one is awaited, or stands between subject and preposition."""
        behind = (self._forms(at + 1)[0],) if at + 1 < len(self._tokens) else ()
        subject = bool(items) and items[-1].kind == "word"
        ends = subject and verb.alone and behind in self._vocabulary.phrases
        # "supplier offers the lowest price"
        acts = subject and items[-1].acts and behind and behind[0] in self._vocabulary.dropped
        if not verb.noun_too or ends or acts or self._awaited(at, items):
            return verb
        return Item("word", singular(self._forms(at)[0], self._language, self._vocabulary.not_plural))

    def _awaited(self, at: int, items: list[Item]) -> bool:
        """Whether an auxiliary still waits for its verb: "did Acme dispute", "how to return"."""
        if self._language != "en" or (at + 1 < len(self._tokens) and self._forms(at + 1)[0] in ("be", "been")):
            return False
        for item in reversed(items):
            if item.kind in ("verb", "role", "break") and item.value != "to":
                break
            if item.kind == "modal" or (item.kind == "aux" and item.value in ("do", "did", "will")):
                return True
        return bool(items) and (items[-1].kind == "relative" or items[-1].value in ("to", "how"))

    def _unknown(self, token: Token) -> Item:
        """As it was written, whatever it is; it may be a name."""
        fold = token.fold
        if token.name:
            return Item("word", f"={fold}", acts=True, name=True)
        one = singular(fold, self._language, self._vocabulary.not_plural)
        abstract = one.endswith(_ABSTRACT[self._language]) and one not in _BODIES and len(one) > 5
        return Item("word", f"={fold}", acts=not abstract)

    def _is_name(self, at: int) -> bool:
        """Written like a name, in a place where other words are not."""
        token = self._tokens[at]
        return token.kind == "word" and token.name and token.fold not in _ACRONYMS

    def _forms(self, at: int) -> Words:
        fold = self._tokens[at].fold
        return fold, fold.translate(_OPENED)

    def _longest(self, known: Container[Words], at: int, shorter_than: int = 99) -> tuple[Words, int] | None:
        """The longest phrase of a table that begins here, and the place behind it."""
        longest = max(self._vocabulary.longest.get(form, 0) for form in self._forms(at))
        most = min(longest, len(self._tokens) - at, shorter_than - 1)
        for length in range(most, 0, -1):
            tokens = self._tokens[at : at + length]
            if any(token.kind not in ("word", "symbol") or _is_acronym(token) for token in tokens):
                continue
            exact = tuple(token.fold for token in tokens)
            for words in (exact, tuple(word.translate(_OPENED) for word in exact)):
                if words in known:
                    return words, at + length
        return None


def _is_acronym(token: Token) -> bool:
    """WHO is not who."""
    return token.name and token.text.isupper() and len(token.text) > 1 and token.fold not in _ACRONYMS


def _in_firm_names(tokens: Sequence[Token]) -> list[bool]:
    """For each token whether it may belong to a firm's name, because a legal form follows."""
    marked = [False] * len(tokens)
    for at, token in enumerate(tokens):
        if token.fold in _FIRMS and token.kind == "word":
            for before in range(max(0, at - _FIRM_WORDS), at + 1):
                marked[before] = True
    return marked
