"""What can be said of an answer without a judge: by its finish, its text, its sources, its calls."""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from services.evaluation.answered import Answered
from services.evaluation.golden.item import PAGE, TABLE, Item, Stratum
from services.evaluation.runs.reading import ALSO
from services.evaluation.runs.record import Record
from services.evaluation.score import Score, Status
from services.evaluation.tools.accuracy import Judged

REFUSAL, REFERENCE_FACTS, CITED, CITED_RIGHT = (
    "refusal_accuracy",
    "reference_facts",
    "citation_recall",
    "citation_precision",
)
TOOLS, ARGUMENTS, NO_TOOL = "tool_selection_accuracy", "call_accuracy", "no_tool_accuracy"

_DASHES = dict.fromkeys(map(ord, "‐‑‒–—−"), "-")
# Numbers with separators of either language, and codes such as CT-2025-0042.
_NUMBER = re.compile(r"(?<![\w-])\d[\d.,  ]*\d(?![\w-])|(?<![\w.,-])\d(?![\w-])")
_CODE = re.compile(r"\b(?=[\w-]*\d)[^\W\d_]+[\w]*(?:-[\w]+)+\b")
_NAME = re.compile(r"(?<![.?!:]\s)(?<!^)\b[A-ZÁÉÍÓÚÑÜ][\w&'’-]+(?:\s+[A-ZÁÉÍÓÚÑÜ][\w&'’-]+)*")


@dataclass(frozen=True)
class RecordMetric:
    """A metric of a record, computed at once. `alarm_below`: where something is wrong."""

    name: str
    measure: Callable[[Record, Item], Score]
    alarm_below: float | None = None


def refusal(record: Record, item: Item) -> Score:
    """1 where it refuses what has no answer, or does not refuse what has one; else 0.

    A question with a false premise has a reference that corrects it: a refusal of such a question is not wrong, since
    nothing false is said, and is left to `reference_facts`.
    """
    answered = _answered(record)
    refused = answered.finish == "refused"
    if item.stratum is Stratum.FALSE_PREMISE and refused:
        return Score(REFUSAL, 1.0, reason="refused a false premise")
    expected = item.reference is None and item.stratum is Stratum.UNANSWERABLE
    if item.reference is None and not expected:
        return _none(REFUSAL, Status.NO_REFERENCE, "neither a reference nor a refusal is expected")
    return Score(REFUSAL, float(refused == expected), reason="refused" if refused else answered.finish)


def reference_facts(record: Record, item: Item) -> Score:
    """Share of what the answer must say that it says: the item's `contains`, else numbers and names of the reference.

    A refusal says none of it. It is a floor: right words in a wrong sentence pass.
    """
    groups = required(item)
    if not groups:
        return _none(REFERENCE_FACTS, Status.NO_REFERENCE, "the reference names no number and no name")
    text = folded(_answered(record).answer)
    found = [any(_says(text, form) for form in forms) for forms in groups]
    missing = [forms[0] for forms, there in zip(groups, found, strict=True) if not there]
    return Score(
        REFERENCE_FACTS, sum(found) / len(found), claim_count=len(found), details={"missing": missing, "of": len(found)}
    )


def required(item: Item) -> Sequence[Sequence[str]]:
    """What an answer must say, each in one of its forms."""
    if item.contains or not item.reference:
        return item.contains
    codes = _CODE.findall(item.reference)
    rest = item.reference
    for code in codes:
        rest = rest.replace(code, " ")
    numbers = [one.strip(" .,") for one in _NUMBER.findall(rest)]
    return [[one] for one in dict.fromkeys([*codes, *numbers, *_NAME.findall(rest)]) if one]


def citation_recall(record: Record, item: Item) -> Score:
    """Share of the expected sources that the answer cites."""
    answered = _answered(record)
    if not item.sources:
        return _none(CITED, Status.NO_REFERENCE, "no source is expected")
    if answered.finish == "refused":
        return _none(CITED, Status.NO_CLAIMS, "a refusal cites nothing")
    cited = cited_sources(record)
    return Score(CITED, len(cited & set(item.sources)) / len(set(item.sources)), details={"cited": sorted(cited)})


def citation_precision(record: Record, item: Item) -> Score:
    """Share of the cited sources that are expected ones."""
    answered = _answered(record)
    if not item.sources:
        return _none(CITED_RIGHT, Status.NO_REFERENCE, "no source is expected")
    cited = cited_sources(record)
    if answered.finish == "refused" or not cited:
        return _none(CITED_RIGHT, Status.NO_CLAIMS, "nothing is cited")
    return Score(CITED_RIGHT, len(cited & set(item.sources)) / len(cited), details={"cited": sorted(cited)})


METRICS = (
    RecordMetric(REFUSAL, refusal, alarm_below=0.95),
    RecordMetric(REFERENCE_FACTS, reference_facts),
    RecordMetric(CITED, citation_recall),
    RecordMetric(CITED_RIGHT, citation_precision),
)


def cited_sources(record: Record) -> set[str]:
    """Each by itself, where a citation has several."""
    return {one for source in record.cited for one in source.split(ALSO) if one}


def by_source(answered: Answered) -> Answered:
    """With a passage for each source of each passage: rows of two tables are found in both, for measures of ranking."""
    passages = [
        replace(passage, source=source) for passage in answered.passages for source in passage.source.split(ALSO)
    ]
    return replace(answered, passages=tuple(passages))


def documents(sources: Sequence[str]) -> tuple[str, ...]:
    """Those that a search of documents can find."""
    return tuple(one for one in sources if not one.startswith((TABLE, PAGE)))


def tool_scores(judged: Judged) -> list[Score]:
    """Tool selection of one question, as scores, so that two runs can be compared question by question."""
    item = judged.item
    if not item.calls:
        if item.stratum is not Stratum.NO_TOOL:
            return []
        return [Score(NO_TOOL, float(judged.none_called), details=_called(judged))]
    scores = [Score(TOOLS, float(judged.tools_right), details=_called(judged))]
    verdicts = [pair.arguments.all_right for pair in judged.assigned.pairs]
    whole = len(verdicts) - verdicts.count(None) + len(judged.assigned.missed)
    if whole:
        wrong = {
            f"{pair.made.tool}.{name}": pair.made.arguments.get(name)
            for pair in judged.assigned.pairs
            for name, verdict in pair.arguments.verdicts.items()
            if verdict is False
        }
        scores.append(Score(ARGUMENTS, verdicts.count(True) / whole, claim_count=whole, details={"wrong": wrong}))
    return scores


def folded(text: str) -> str:
    """Lower case, without accents, one kind of dash and blank."""
    plain = unicodedata.normalize("NFKD", text.translate(_DASHES))
    return " ".join("".join(one for one in plain if not unicodedata.combining(one)).casefold().split())


def _says(text: str, form: str) -> bool:
    """Whole words and numbers only: `45` is not in `145` nor in `45,000`."""
    wanted = folded(form)
    return re.search(rf"(?<![\w]){re.escape(wanted)}(?![\w]|[.,]\d)", text) is not None


def _called(judged: Judged) -> Mapping[str, object]:
    return {
        "expected": [call.tool for call in judged.item.calls],
        "called": [call.tool for call in judged.calls],
        "missed": [call.tool for call in judged.assigned.missed],
    }


def _answered(record: Record) -> Answered:
    if record.answered is None:
        raise ValueError(f"{record.item_id} failed: there is nothing to measure")
    return record.answered


def _none(metric: str, status: Status, reason: str) -> Score:
    return Score(metric, None, status, reason)
