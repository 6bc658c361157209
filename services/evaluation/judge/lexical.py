"""A stand-in for a judge where there is no model: counts words and numbers that texts have in common.

It lets the whole path of an evaluation run, and shows gross changes (passages that are lost, noise that is copied). It
knows no meaning, negation or order of words, so that its figures are never a judge's: reports name it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from services.evaluation.answered import Json
from services.evaluation.judge.fitting import fitted
from services.evaluation.judge.judge import Check, JudgeFailed, Usage, no_complaint
from services.runtime.recognition.folding import fold

NAME = "lexical-stand-in"
VERSION = "words-1"
# Of a claim's words, those that have to stand in one passage; its numbers all must.
_SUPPORTED = 0.6
# Of the words of a reference (or, without one, of the question), those that make a passage relevant.
_RELEVANT = 0.3
_COVERED = 0.3
# Endings differ by number, gender and tense in both languages.
_STEM = 5
_SHORTEST = 4
_MARK = re.compile(r"\s*\[\d+\]")
_SENTENCE_END = re.compile(r"(?<=[.!?…])(?<!\b\w\.)\s+(?=[^a-z])|\n+")
_WORD = re.compile(r"[^\W\d_]+")
# Before another question word: "… and how much …".
_ASPECT = re.compile(r"\s*(?:,\s*)?\b(?:and|y|e|as well as|así como)\b\s+(?=¿|wh|how|qu|cu|c[oó]mo|d[oó]nde)", re.I)
_THOUSANDS = re.compile(r"[.,](?=\d{3}\b)")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_NOTHING_SAID = re.compile(
    r"no (?:tengo|hay|dispongo de|encuentro|he encontrado) (?:suficiente )?informacion|no (?:se|lo se)\b"
    r"|(?:not (?:have|find|found)|no) (?:enough |sufficient |any )?information"
    r"|(?:don't|do not|cannot|could not) (?:know|find)",
    re.I,
)


class LexicalJudge:
    """A Judge without a model. The same for all languages; no call, no token, no failure but an unknown task."""

    def __init__(self) -> None:
        self._usage = Usage()

    @property
    def name(self) -> str:
        """See Judge."""
        return NAME

    @property
    def url(self) -> str:
        """See Judge."""
        return ""

    @property
    def usage(self) -> Usage:
        """See Judge."""
        return self._usage

    def prompt_version(self, task: str, language: str) -> str:
        """See Judge: there is no prompt, but these rules have a version."""
        return VERSION

    async def ask(
        self,
        task: str,
        language: str,
        facts: Mapping[str, Json],
        schema: Mapping[str, Json],
        check: Check = no_complaint,
    ) -> Json:
        """See Judge."""
        self._usage.calls += 1
        return fitted(json.dumps(_answer(task, cast(Mapping[str, Any], facts))), schema, check)


def _answer(task: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    match task:
        case "claims":
            return {"claims": sentences(facts["text"])}
        case "support":
            return {"verdicts": [_support(one, facts["passages"]) for one in facts["claims"]]}
        case "relevance":
            wanted = _words(facts.get("reference") or facts["question"])
            verdicts = [(one["passage"], _share(wanted, _words(one["text"]))) for one in facts["passages"]]
            return {"verdicts": [_verdict("passage", at, "relevant", share, _RELEVANT) for at, share in verdicts]}
        case "questions":
            # It cannot ask; what is said is the nearest to what was asked.
            said = sentences(facts["answer"])
            return {
                "noncommittal": not said,
                "questions": [(said or ["-"])[n % max(1, len(said))] for n in range(facts["count"])],
            }
        case "aspects":
            return {"aspects": [one for one in _ASPECT.split(facts["question"]) if one.strip()] or ["-"]}
        case "coverage":
            said = _words(facts["answer"])
            verdicts = [(one["aspect"], _share(_words(one["text"]), said)) for one in facts["aspects"]]
            return {"verdicts": [_verdict("aspect", at, "covered", share, _COVERED) for at, share in verdicts]}
        case _:
            raise JudgeFailed(f"words say nothing on {task}")


def sentences(text: str) -> list[str]:
    """Without citation marks, and without those that say nothing or only that nothing is known."""
    found = (one.strip(" -*•\t") for one in _SENTENCE_END.split(_MARK.sub("", text)))
    return [one for one in found if _words(one) and not _NOTHING_SAID.search(fold(one).text)]


def _support(claim: Mapping[str, Any], passages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    words, numbers = _words(claim["text"]), _numbers(claim["text"])
    by = [
        one["passage"]
        for one in passages
        if numbers <= _numbers(one["text"]) and _share(words, _words(one["text"])) >= _SUPPORTED
    ]
    reason = "its words and numbers stand in a passage" if by else "its words and numbers stand in no passage"
    return {"claim": claim["claim"], "reason": reason, "passages": by, "supported": bool(by)}


def _verdict(kind: str, number: int, says: str, share: float, least: float) -> dict[str, Any]:
    return {kind: number, "reason": f"{share:.0%} of the words in common", says: share >= least}


def _share(wanted: set[str], there: set[str]) -> float:
    return len(wanted & there) / len(wanted) if wanted else 0.0


def _words(text: str) -> set[str]:
    """Beginnings of the longer words and the numbers: what a text is about."""
    folded = fold(text).text.casefold()
    return {one[:_STEM] for one in _WORD.findall(folded) if len(one) >= _SHORTEST} | _numbers(text)


def _numbers(text: str) -> set[str]:
    """Without separators of thousands: `1,000` is `1.000`, but `1.5` is not `15`."""
    return {_THOUSANDS.sub("", one) for one in _NUMBER.findall(text)}
