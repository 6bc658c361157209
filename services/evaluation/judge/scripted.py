"""A judge that answers by a table, for tests and for showing how a metric works. It has no judgement of its own."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ConfigDict

from services.evaluation.answered import Json
from services.evaluation.judge.fitting import fitting_answer
from services.evaluation.judge.judge import Check, JudgeFailed, Usage, no_complaint
from services.evaluation.judge.prompts import Prompts


class Script(BaseModel):
    """What the judge thinks, by text. What is not there it does not know, and fails."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Claims of an answer or a reference.
    claims: Mapping[str, Sequence[str]] = {}
    # Texts of the passages that support a claim; it is unsupported where none of these is shown.
    supported_by: Mapping[str, Sequence[str]] = {}
    # Texts of the passages that help to answer a question.
    relevant_to: Mapping[str, Sequence[str]] = {}
    # Questions that an answer answers; none: it is noncommittal.
    questions: Mapping[str, Sequence[str]] = {}
    # What a question asks for, and which of it an answer covers.
    aspects: Mapping[str, Sequence[str]] = {}
    covered_by: Mapping[str, Sequence[str]] = {}

    @classmethod
    def read(cls, path: Path) -> "Script":
        """From JSON, under `script`."""
        return cls.model_validate(json.loads(path.read_text(encoding="utf-8"))["script"])


class ScriptedJudge:
    """A Judge over a script. `first`: by task, raw answers or errors that come before those of the script."""

    def __init__(self, script: Script, first: Mapping[str, Sequence[str | Exception]] | None = None) -> None:
        self._script = script
        self._first = {task: list(answers) for task, answers in (first or {}).items()}
        self._prompts = Prompts.shipped()
        self._usage = Usage()

    @property
    def name(self) -> str:
        """See Judge."""
        return "scripted"

    @property
    def url(self) -> str:
        """See Judge."""
        return ""

    @property
    def usage(self) -> Usage:
        """See Judge. Tokens are not counted."""
        return self._usage

    def prompt_version(self, task: str, language: str) -> str:
        """See Judge."""
        return self._prompts.version(task, language)

    async def ask(
        self,
        task: str,
        language: str,
        facts: Mapping[str, Json],
        schema: Mapping[str, Json],
        check: Check = no_complaint,
    ) -> Json:
        """See Judge."""

        async def reply(_: str) -> str:
            self._usage.calls += 1
            return self.reply(task, facts)

        try:
            return await fitting_answer(reply, schema, check, self._count_repeat)
        except JudgeFailed:
            self._usage.failed += 1
            raise

    def reply(self, task: str, facts: Mapping[str, Json]) -> str:
        """The raw answer, as a server would send it. Raises JudgeFailed where the script knows nothing."""
        if self._first.get(task):
            raw = self._first[task].pop(0)
            if isinstance(raw, Exception):
                raise raw
            return raw
        try:
            return json.dumps(self._answer(task, cast(Mapping[str, Any], facts)))
        except KeyError:
            raise JudgeFailed(f"the script has nothing on {task} of this") from None

    def _count_repeat(self) -> None:
        self._usage.repeated += 1

    def _answer(self, task: str, facts: Mapping[str, Any]) -> Any:
        script = self._script
        match task:
            case "claims":
                return {"claims": list(script.claims[facts["text"]])}
            case "support":
                return {"verdicts": [self._support(one, facts["passages"]) for one in facts["claims"]]}
            case "relevance":
                known = script.relevant_to[facts["question"]]
                return {"verdicts": [_verdict("passage", one, "relevant", known) for one in facts["passages"]]}
            case "questions":
                questions = list(script.questions[facts["answer"]])
                unsaid = [facts["answer"]] * facts["count"]
                return {"noncommittal": not questions, "questions": questions or unsaid}
            case "aspects":
                return {"aspects": list(script.aspects[facts["question"]])}
            case "coverage":
                known = script.covered_by[facts["answer"]]
                return {"verdicts": [_verdict("aspect", one, "covered", known) for one in facts["aspects"]]}
            case _:
                raise KeyError(task)

    def _support(self, claim: Mapping[str, Any], passages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        known = self._script.supported_by[claim["text"]]
        shown = [one["passage"] for one in passages if one["text"] in known]
        return {"claim": claim["claim"], "reason": "as scripted", "passages": shown, "supported": bool(shown)}


def _verdict(kind: str, one: Mapping[str, Any], says: str, known: Sequence[str]) -> dict[str, Any]:
    return {kind: one[kind], "reason": "as scripted", says: one["text"] in known}
