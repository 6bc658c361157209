"""Makes parts of a question's items: which words belong to one phrase, and what a preposition binds it to."""

from collections.abc import Sequence

from services.tool_cache.semantic.parts import Part
from services.tool_cache.semantic.vocabulary import Item, vocabulary

_OF_TIME = ("", "in", "on", "of", "for", "at", "during")
# Before "more than 5" these say nothing: "contracts of more than 5".
_COMPARED_OF = ("of", "for", "by agent", "by", "in")
# Nobody does this to people.
_DONE_TO_THINGS = {"sign", "renew", "issue", "terminate", "firmar", "renovar", "emitir", "rescindir"}
_SUBJECTS = {"_we", "_i", "_you", "_they", "_he", "_she"}
# Adjectives of the whole, wherever they stand in a phrase.
_MEASURES = {"average", "maximum", "minimum", "total"}


class PhraseBuilder:
    """Takes items one by one and makes parts of them."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._parts: list[Part] = []
        self._phrase = Part("phrase")
        # Adjectives and numbers, with the count of the words before them.
        self._leading: list[tuple[int, str]] = []
        self._role = ""
        self._negated = 0
        self._separator = ""
        self._plural = False
        # Whether "is" or "are" came right before.
        self._told = False
        # Whether something else than "which" is asked, and whether "that" or "who" came.
        self._asks, self._relative, self._that = False, False, False
        # Phrases before they were joined, and a verb that still waits for the first one.
        self._simple: list[Part] = []
        self._waiting: Part | None = None

    def add(self, item: Item) -> None:
        """The next item."""
        match item.kind:
            case "role" | "compare":
                self._add_role(item)
            case "verb":
                self._add_verb(item)
            case "date":
                self._add_date(item)
            case "break" | "not" | "relative" | "edge" | "modal":
                self._add_mark(item)
            case "question":
                self._asks = True
            case "asked":
                pass
            case _:
                self._add_word(item)

    def _add_mark(self, item: Item) -> None:
        """What ends a phrase and begins another one."""
        self._close()
        match item.kind:
            case "break":
                self._separator = item.value if self._parts else ""
            case "not":
                self._negated += 1
            case "modal":
                self._append(Part("modal", self._role, [item.value]))
            case _:
                self._told = item.value == "be"
                self._relative |= item.kind == "relative"
                # Of what it says more is clear only where there is one phrase before it.
                self._that |= item.kind == "relative" and len(self._simple) > 1
                if item.kind == "relative" and self._role:
                    # "clientes a los que pagaron"
                    self._role = f"{self._role} which"

    def finished(self) -> list[Part]:
        """All parts."""
        self._close()
        if self._role or self._negated or self._separator:
            self._append(Part("left", self._role))
        return self._parts

    def _append(self, part: Part) -> None:
        part.negated, part.before = self._negated, self._separator
        if part.kind != "phrase" and part.before == ",":
            part.before = ""
        if self._that and part.kind != "date":
            part.before, self._that = part.before or "that", False
        self._parts.append(part)
        self._role, self._negated, self._separator = "", 0, ""

    def _add_word(self, item: Item) -> None:
        if item.value in _SUBJECTS:
            # "contracts we signed": one who does it, and no part of the phrase before.
            self._close()
            negated, self._negated = self._negated, 0
            self._append(Part("phrase", self._role, [item.value], acts=True))
            self._negated = negated
            return
        phrase = self._phrase
        place = len(phrase.words)
        if item.kind == "adjective" and phrase.words[-1:] in (["_mas"], ["_most"]):
            phrase.words.pop()
            self._leading.append((place - 1, f"most {item.value}"))
        elif item.kind == "extreme":
            self._leading.append((place, f"most {item.value}"))
        elif item.kind == "adjective" or (item.kind == "number" and not phrase.words):
            self._leading.append((place, item.value))
        else:
            phrase.words.append(item.value)
            self._plural |= item.plural
            # English says the main word last, Spanish first. A code behind a noun is its name: "invoice 4711".
            numbered = len(phrase.words) > 1 and any(sign.isdigit() for sign in item.value)
            if (self._language == "en" and not numbered) or len(phrase.words) == 1:
                phrase.acts, phrase.head = item.acts, item.value
                phrase.someone, phrase.named = item.acts and not item.value.startswith("="), item.name
            phrase.open = len(phrase.words) > 1 and item.value.startswith("=") and not item.name and not numbered

    def _add_role(self, item: Item) -> None:
        self._close()
        value = item.value if item.kind == "role" else f"compare {item.value}"
        if value == "without" and not self._negated:
            value, self._negated = "with", 1
        if item.kind == "compare" and self._role in _COMPARED_OF:
            self._role = ""
        self._role = f"{self._role} {value}".strip()

    def _add_verb(self, item: Item) -> None:
        self._close()
        # "deadline for claiming" and "deadline to claim", but not "annex of signed contracts".
        role = "" if self._role in ("to", "for", "of") and item.tense != "p" else self._role
        part = Part("verb", role, verb=item)
        self._append(part)
        # "contracts with Acme signed": it is the contracts; "contracts with annexes signed": the annexes.
        things = [
            phrase
            for phrase in self._simple
            if not (item.human and (phrase.named or (phrase.someone and item.value in _DONE_TO_THINGS)))
        ]
        if things or self._simple:
            part.bound = (things or self._simple)[-1].head
        else:
            self._waiting = part

    def _add_date(self, item: Item) -> None:
        self._close()
        last = self._parts[-1] if self._parts else None
        if self._separator and not self._role and last is not None and last.kind == "date":
            self._role = last.role
        elif self._role in _OF_TIME:
            # "approved for 2024" is not "approved in 2024"; without a verb both say whose it is.
            self._role = "when for" if self._role in ("of", "for") else "when"
        made = Part("date", self._role, [item.value])
        if self._simple and self._simple[-1].open and not any(part is self._simple[-1] for part in self._parts):
            made.bound = self._simple[-1].head
        self._append(made)

    def _close(self) -> None:
        """Ends the phrase; joins it to the one before where its preposition only says "of"."""
        phrase, leading = self._phrase, self._leading
        if not phrase.words and not leading:
            return
        self._phrase, self._leading = Part("phrase"), []
        self._bind(phrase, leading)
        if self._plural and any(word.startswith("most ") for word in phrase.leading):
            phrase.leading.append("several")
        self._plural = False
        self._simple.append(phrase)
        if self._waiting is not None:
            self._waiting.bound, self._waiting = phrase.head, None
        last = next((part for part in reversed(self._parts) if not self._stands_aside(part)), None)
        phrase.role = self._role
        if phrase.role == "by agent" and not phrase.acts:
            phrase.role = "by"
        joins = phrase.role == "of" or self._says_of(phrase, last)
        if joins and not self._negated and not self._separator and last is not None and last.kind == "phrase":
            last.words = [*phrase.leading, *phrase.words, *last.words]
            self._role = ""
            return
        told, self._told = self._told, False
        if told and not self._role and not self._negated and self._tells_of(phrase):
            return
        if self._separator and not phrase.role and last is not None and last.kind == "phrase":
            phrase.role = last.role
        self._append(phrase)

    def _stands_aside(self, part: Part) -> bool:
        """Whether "of" leads past a part: a date, or a Spanish participle as in "pagos vencidos del cliente"."""
        participle = part.kind == "verb" and part.verb.tense == "p" and part.verb.voice in ("", "passive")
        return part.kind == "date" or (participle and self._language == "es")

    def _tells_of(self, phrase: Part) -> bool:
        """Joins "are active", "son eléctricos" to what they are said of, where that is not asked by yes or no."""
        first, between = (self._parts[0], self._parts[1:]) if self._parts else (None, [])
        said = not phrase.words or (len(phrase.words) == 1 and not phrase.leading and phrase.words[0].startswith("="))
        if first is None or not said or first.kind != "phrase" or first.role or self._asks:
            return False
        joined = len(self._simple) > 1 and not any(part is self._simple[-2] for part in self._parts)
        if self._relative and (between or joined):
            return False
        if any(part.kind != "phrase" or not part.role for part in between):
            return False
        first.leading = sorted({*first.leading, *phrase.leading})
        if phrase.words:
            words = (first.words, phrase.words) if self._language == "es" else (phrase.words, first.words)
            first.words = [*words[0], *words[1]]
        return True

    def _bind(self, phrase: Part, leading: Sequence[tuple[int, str]]) -> None:
        """Adjectives of the main word go first. "Active customer contracts" may be of active customers: as written."""
        words = phrase.words
        for place, word in reversed(leading):
            near = place >= len(words) - 1 or self._language == "es"
            if near or word.startswith(("most ", "#")) or word in _MEASURES:
                phrase.leading.append(word)
            else:
                words.insert(place, word)
        phrase.leading = sorted(set(phrase.leading))

    def _says_of(self, phrase: Part, last: Part | None) -> bool:
        """Whether a preposition says no more than "of" behind the part before."""
        head, known = last.head if last is not None else "", vocabulary(self._language)
        if phrase.role in known.like_of_any.get(head, ()):
            return True
        in_document = phrase.role == "in" and phrase.head in known.documents
        return not phrase.acts and (in_document or phrase.role in known.like_of.get(head, ()))
