"""Questions that vary the one before (`and in 2024?`), where a reviewed query answered that one to the letter."""

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from services.orchestrator.model import Message
from services.orchestrator.query_shape import leans_on_history
from services.orchestrator.routing.reviewed import Reviewed
from services.orchestrator.routing.slots import NotFilled
from services.orchestrator.routing.wording import cleaned

# Older ones are seldom varied, and each costs a look at every query.
_MAX_EARLIER = 6
_MAX_CHARS = 400
_CONTINUES = re.compile(r"^\W*(?:y|e|pero|and|but|then|qu[ée] hay de|what about|how about)\b", re.IGNORECASE)

_ASKS_FOR = re.compile(
    r"^\W*(?:(?:in|for|with|by|to|on|of|from|en|con|para|por|de|a)\s+)?"
    r"(?:what|which|who|whose|how (?:many|much)|when|where|"
    r"qu[ée]|cu[áa]l(?:es)?|cu[áa]nt[oa]s?|qui[ée]n(?:es)?|cu[áa]ndo|d[óo]nde)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Fit:
    """A reviewed query with the arguments that answer a question."""

    name: str
    arguments: Mapping[str, Any]


def fit(usable: Sequence[Reviewed], text: str, today: date) -> Fit | None:
    """The one reviewed query that says every word of the text."""
    found: list[Fit] = []
    for one in usable:
        with contextlib.suppress(NotFilled):
            found.append(Fit(one.name, one.fit(text, today)))
    return found[0] if len(found) == 1 else None


def varied(usable: Sequence[Reviewed], history: Sequence[Message], text: str, today: date) -> Fit | None:
    """The query of the conversation's last question with what `text` says otherwise; None where that is not certain."""
    earlier = [message.text for message in history if message.role == "user"][-_MAX_EARLIER:]
    known: Fit | None = None
    for question in earlier:
        known = _varied(usable, known, question, today) or fit(usable, question[:_MAX_CHARS], today)
    return _varied(usable, known, text, today)


def _varied(usable: Sequence[Reviewed], known: Fit | None, text: str, today: date) -> Fit | None:
    query = next((one for one in usable if known and one.name == known.name), None)
    if query is None or known is None or len(text) > _MAX_CHARS or not leans_on_history(text):
        return None
    try:
        return Fit(known.name, {**known.arguments, **query.vary(cleaned(text), today)})
    except NotFilled:
        return None


def goes_on(history: Sequence[Message], text: str) -> bool:
    """Whether the text answers what the assistant has just asked, or asks for more of what was spoken of before.

    `Yes, please` may want a search, and `who are they?` may want rows; `make it shorter` wants neither.
    """
    last = next((message for message in reversed(history) if message.role in ("user", "assistant")), None)
    if last is None:
        return False
    asked = last.role == "assistant" and last.text.rstrip().endswith("?")
    return asked or bool(_CONTINUES.match(text)) or bool(_ASKS_FOR.match(text) and leans_on_history(text))
