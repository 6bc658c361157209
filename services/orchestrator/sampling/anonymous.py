"""Takes personal data out of an answer before it leaves the process: the same thing gets the same name everywhere.

Found are numbers and addresses (see services.runtime.recognition.identifiers): e-mail, telephones, accounts, cards,
identity numbers, inner hosts, secrets; and most names of persons (see persons). Not found are streets, what is written
out in words, and persons whose name is neither frequent nor introduced by anything.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, TypeAlias, cast

from services.orchestrator.sampling.finished_answer import FinishedAnswer
from services.orchestrator.sampling.persons import People
from services.runtime.recognition.folding import fold
from services.runtime.recognition.identifiers import find_identifiers

# The recognisers want a text of bounded length; what is sought is never as long as two windows share.
_WINDOW_CHARS, _SHARED_CHARS = 1_500, 400
# Whatever they find has one of these in it; most prose has none, and is not looked at any further.
_MAY_HOLD = re.compile(
    r"@|arroba|[\[(<{] ?at ?[\])>}]|(?:\d[\W_]{0,4}){7}|\d\.\d+\.\d+\.\d|f[cd][0-9a-f]{2}:|\\\\"
    r"|\.(?:local|internal|intranet|corp|lan|home)|[a-z0-9+/_-]{20}|[a-z]{1,6}[-_][a-z0-9-_]{10}|://|-----BEGIN"
    r"|(?:password|passwd|pwd|contrasena|clave|secret|token|key)\s*[:=]",
    re.IGNORECASE,
)

# Kind, what makes two of a kind the same, and where.
_Found: TypeAlias = tuple[str, str, int, int]


class Names:
    """Names such as `[EMAIL_1]` for what is found in the texts of one answer."""

    def __init__(self, people: People | None = None) -> None:
        """`people`: has learned all texts of the answer, so that a part of a name in one is known by another one."""
        self._people = people or People()
        self._names: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}

    def redacted(self, text: str) -> str:
        """`text` with names in place of what names a person or an account, or opens a door."""
        parts: list[str] = []
        place = 0
        for kind, key, start, end in _merged(chain(self._identifiers(text), self._persons(text))):
            parts += text[place:start], self._name_of(kind, key)
            place = end
        return "".join((*parts, text[place:]))

    def _identifiers(self, text: str) -> Iterator[_Found]:
        folded = fold(text)
        for kind, start, end in _found(folded.text):
            said = "".join(filter(str.isalnum, folded.text[start:end].casefold()))
            yield kind, said, *folded.span(start, end)

    def _persons(self, text: str) -> Iterator[_Found]:
        for person, (start, end) in self._people.spans(text):
            yield "person", str(person), start, end

    def redacted_json(self, text: str) -> str:
        """The same for JSON, which stays JSON; what is none is a text."""
        try:
            value = json.loads(text)
        except ValueError:
            return self.redacted(text)
        return json.dumps(self._redacted_value(value), ensure_ascii=False)

    def _redacted_value(self, value: Any) -> Any:
        match value:
            case str():
                return self.redacted(value)
            case dict():
                members = cast(dict[str, Any], value).items()
                return {self.redacted(key): self._redacted_value(one) for key, one in members}
            case list():
                return [self._redacted_value(one) for one in cast(list[Any], value)]
            case bool() | None:
                return value
            case _:
                said = str(value)
                return value if self.redacted(said) == said else self.redacted(said)

    def _name_of(self, kind: str, said: str) -> str:
        key = kind, said
        if key not in self._names:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._names[key] = f"[{kind.upper()}_{self._counts[kind]}]"
        return self._names[key]


def anonymous(answer: FinishedAnswer) -> FinishedAnswer:
    """The answer without personal data. Takes some milliseconds: not on the loop of those who answer."""
    people = People()
    for text in (answer.question, answer.answer, *(one.text for one in answer.passages)):
        people.learn(text)
    names = Names(people)
    return replace(
        answer,
        question=names.redacted(answer.question),
        answer=names.redacted(answer.answer),
        passages=tuple(
            replace(one, text=names.redacted(one.text), source=names.redacted(one.source)) for one in answer.passages
        ),
        calls=tuple(replace(one, arguments_json=names.redacted_json(one.arguments_json)) for one in answer.calls),
    )


def _found(text: str) -> Iterator[tuple[str, int, int]]:
    for begin in range(0, max(1, len(text) - _SHARED_CHARS), _WINDOW_CHARS - _SHARED_CHARS):
        window = text[begin : begin + _WINDOW_CHARS]
        for kind, (start, end) in find_identifiers(window) if _MAY_HOLD.search(window) else ():
            yield kind, begin + start, begin + end


def _merged(found: Iterator[_Found]) -> list[_Found]:
    """In order, those that overlap as one."""
    merged: list[_Found] = []
    for kind, key, start, end in sorted(found, key=lambda one: (one[2], -one[3])):
        if merged and start < merged[-1][3]:
            first_kind, first_key, first, last = merged[-1]
            merged[-1] = first_kind, first_key, first, max(last, end)
        else:
            merged.append((kind, key, start, end))
    return merged
