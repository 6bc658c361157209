"""A model that judges citations and knows what is wrong: what the checks reach if their judge is right."""

import json
from collections.abc import AsyncGenerator, Sequence

from services.orchestrator.citing.claims import MARKS
from services.orchestrator.model import Delta, Message, Sampling, ToolSpec, Turn, Usage
from services.orchestrator.trials.citation_cases import Case


class KnowingModel:
    """Reads the claims that it is asked about as any model would, and fills in the form. Set `case` before."""

    def __init__(self) -> None:
        self.case: Case | None = None
        self.asked = 0

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling
    ) -> AsyncGenerator[Delta | Turn]:
        """See Model."""
        self.asked += 1
        claims = json.loads(messages[-1].text)["claims"]
        text = json.dumps({"unsupported": [one["number"] for one in claims if self._is_wrong(one["text"])]})
        yield Delta(text)
        yield Turn(text, usage=Usage(len(messages[-1].text) // 4, len(text) // 4))

    def _is_wrong(self, claim: str) -> bool:
        case = self.case
        if case is None or case.right:
            return False
        planted, claim = _bare(case.planted), _bare(claim)
        return not planted or claim in planted or planted in claim

    async def close(self) -> None:
        """Nothing to close."""


def _bare(text: str) -> str:
    return " ".join(MARKS.sub(" ", text).split()).strip(" .,;:")
