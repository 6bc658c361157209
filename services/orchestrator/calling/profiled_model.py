"""A model of a known family: calls that its server left in the text become calls, and thoughts stay hidden."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from services.orchestrator import metrics
from services.orchestrator.calling.profiles import Form, Profile
from services.orchestrator.calling.text_calls import CallText
from services.orchestrator.calling.tolerant_json import NotReadable, read_object
from services.orchestrator.calling.transcript import shaped
from services.orchestrator.model import Delta, Message, Model, Sampling, ToolCall, ToolSpec, Turn


@dataclass(frozen=True)
class ProfiledModel:
    """Wraps `model`. `name`: under which it is counted, one of a closed list."""

    model: Model
    profile: Profile
    name: str = ""

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling
    ) -> AsyncGenerator[Delta | Turn]:
        """See Model. In a guided turn nothing is looked for but thoughts."""
        looks = sampling.json_schema is None
        offered = {tool.name: tool.parameters for tool in tools} if sampling.may_call else {}
        forms = tuple(form for form in self.profile.forms if looks or form is Form.THOUGHT)
        profile = replace(self.profile, forms=forms)
        text, shown = CallText(profile, offered), list[str]()
        async with aclosing(self.model.stream(shaped(messages, self.profile), tools, sampling)) as parts:
            async for part in parts:
                if isinstance(part, Delta):
                    piece = text.feed(part.text)
                else:
                    piece = text.finish(cut=part.cut)
                if piece:
                    shown.append(piece)
                    yield Delta(piece)
                if isinstance(part, Turn):
                    yield self._read(part, text, "".join(shown))

    def _read(self, turn: Turn, text: CallText, shown: str) -> Turn:
        native = [replace(call, arguments_json=_mended(call, cut=turn.cut), model=self.name) for call in turn.calls]
        written = [ToolCall("", call.name, call.arguments_json, self.name) for call in text.calls]
        if text.malformed:
            metrics.MODEL_CALLS.labels(self.name, "false").inc()
        return replace(turn, text=shown, calls=(*native, *written), malformed=turn.malformed or text.malformed)


def _mended(call: ToolCall, *, cut: bool) -> str:
    """The arguments as one JSON object where they can only mean one; else as they are: the model will hear of it."""
    try:
        json.loads(call.arguments_json or "{}")
    except (ValueError, RecursionError):
        try:
            return json.dumps(read_object(call.arguments_json, cut=cut), ensure_ascii=False)
        except NotReadable:
            pass
    return call.arguments_json
