"""What a report shows, worked out: plain values that the templates of both forms write down."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, cast

from services.evaluation.golden.item import TEST, Item, Stratum
from services.evaluation.report import thresholds
from services.evaluation.report.thresholds import Alarm
from services.evaluation.runs import baselines
from services.evaluation.runs.compare import Compared, compare, families_of
from services.evaluation.runs.folder import ToolFigures
from services.evaluation.runs.record import Evidence, Record, by_variant
from services.evaluation.runs.run import Finished
from services.evaluation.runs.summary import VariantSummary
from services.evaluation.score import Mean, Score
from services.evaluation.tools.accuracy import NONE, Selection
from services.evaluation.tools.descriptions import Confused, confused

STAND_INS = frozenset({"lexical-stand-in", "scripted"})
_WORST = 10
_MOST_CONFUSED = 12
# What says how good an answer is; retrieval and calls have tables of their own.
_OF_AN_ANSWER = (
    *("faithfulness", "reference_facts", "refusal_accuracy", "citation_precision", "completeness"),
    *("tool_selection_accuracy", "no_tool_accuracy"),
)
_STRATA_METRICS = (
    *("refusal_accuracy", "reference_facts", "faithfulness", "answer_relevance", "context_precision"),
    *("context_recall", "recall@10", "ndcg@10", "tool_selection_accuracy", "call_accuracy", "no_tool_accuracy"),
)


@dataclass(frozen=True)
class Row:
    """A metric over the variants. `bound`: its threshold as text."""

    metric: str
    bound: str
    cells: Sequence[Mean | None]
    broken: Sequence[bool]


@dataclass(frozen=True)
class Comparison:
    """The first variant against another one."""

    other: str
    is_baseline: bool
    compared: Sequence[Compared]


@dataclass(frozen=True)
class StrataTable:
    """One metric by stratum (rows) and language (columns)."""

    metric: str
    languages: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Mean | None]]]


@dataclass(frozen=True)
class ToolsView:
    """Tool selection of one variant."""

    variant: str
    selection: Selection
    names: Sequence[str]
    # Rows of the confusion matrix in the order of `names`: what was expected, by what was called.
    matrix: Sequence[tuple[str, Sequence[int]]]
    most: int
    pairs: Sequence[Confused]
    # The variant's own figures, then those of choosing without looking.
    beside: Mapping[str, Selection]


@dataclass(frozen=True)
class WorstAnswer:
    """An answer that scores badly. `claims`: (text, supported or None where nobody judged)."""

    item: Item
    value: float
    answer: str
    finish: str
    scores: Mapping[str, float]
    claims: Sequence[tuple[str, bool]]
    passages: Sequence[tuple[str, str]]
    missing: Sequence[str]
    calls: Sequence[str]

    @property
    def expected(self) -> str:
        """What would be right, in words."""
        if self.item.reference:
            return self.item.reference
        if self.item.stratum is Stratum.UNANSWERABLE:
            return "a refusal"
        tools = ", then ".join(
            " + ".join(call.tool for call in self.item.calls if call.group == group)
            for group in sorted({call.group for call in self.item.calls})
        )
        return f"{tools or 'no tool'}; the set does not say which text"


@dataclass(frozen=True)
class View:
    """The whole report. `notes`: what a reader must know before any figure."""

    title: str
    facts: Mapping[str, str]
    notes: Sequence[str]
    variants: Sequence[VariantSummary]
    rows: Sequence[Row]
    alarms: Sequence[Alarm]
    hidden: Sequence[str]
    not_measured: Mapping[str, str]
    comparisons: Sequence[Comparison]
    strata: Sequence[StrataTable]
    tools: Sequence[ToolsView]
    worst: Sequence[WorstAnswer]
    failures: Sequence[tuple[str, str, str]]
    times: Mapping[str, Sequence[float]] = field(default_factory=dict[str, "Sequence[float]"])

    @property
    def main(self) -> VariantSummary:
        """The variant that the report is about; the others are what it is compared with."""
        return self.variants[0]


def view_of(run: Finished) -> View:
    """Of a finished run. Of a test half no single question is shown: what was seen would be tuned to."""
    manifest, plan = run.folder.manifest, run.plan
    summary, scores = run.summary, by_variant(run.scored)
    first = summary.variants[0]
    sealed = plan["half"] == TEST
    return View(
        title=f"{plan['golden_set']}, {plan['half']} half",
        facts=_facts(run),
        notes=_notes(run),
        variants=summary.variants,
        rows=[_row(metric, summary.variants) for metric in summary.metrics],
        alarms=thresholds.alarms(first.means),
        hidden=thresholds.hidden(first.means),
        not_measured=cast(Mapping[str, str], manifest.scoring.get("not_measured", {})),
        comparisons=_comparisons(run, scores),
        strata=_strata(first),
        tools=[
            _tools(name, one, run.tools) for name, one in run.tools.selections.items() if name not in baselines.NAMES
        ],
        worst=[] if sealed else worst_answers(run, first.variant, scores.get(first.variant, {})),
        failures=[] if sealed else [(one.variant, one.item_id, one.failure) for one in run.records if one.failure],
        times=_times(run.records, [one.variant for one in summary.variants]),
    )


def worst_answers(run: Finished, variant: str, scores: Mapping[str, Mapping[str, Score]]) -> list[WorstAnswer]:
    """By the mean of what was scored of the answer itself, worst first; at most ten, and none that is all right."""
    items = {item.id: item for item in run.items}
    found: list[WorstAnswer] = []
    for record in run.records:
        own = {name: of[record.item_id] for name, of in scores.items() if record.item_id in of}
        values = {name: score.value for name, score in own.items() if score.value is not None}
        judged = [values[name] for name in _OF_AN_ANSWER if name in values]
        if record.variant != variant or record.answered is None or not judged or min(judged) == 1:
            continue
        found.append(_worst(record, items[record.item_id], fmean(judged), own, values))
    return sorted(found, key=lambda one: (one.value, one.item.id))[:_WORST]


def _worst(
    record: Record, item: Item, value: float, own: Mapping[str, Score], values: Mapping[str, float]
) -> WorstAnswer:
    answered = record.answered
    assert answered is not None
    details: Any = own["faithfulness"].details if "faithfulness" in own else {}
    missing: Any = own["reference_facts"].details.get("missing", ()) if "reference_facts" in own else ()
    return WorstAnswer(
        item,
        value,
        answered.answer,
        answered.finish,
        {name: values[name] for name in _OF_AN_ANSWER if name in values},
        [(one["text"], one["supported"]) for one in details.get("claims", ())],
        [(one.source, one.text) for one in answered.passages],
        list(missing),
        [f"{call.tool}({', '.join(f'{k}={v!r}' for k, v in call.arguments.items())})" for call in answered.calls],
    )


def _facts(run: Finished) -> dict[str, str]:
    manifest, plan = run.folder.manifest, run.plan
    facts: dict[str, str] = {
        "set": f"{plan['golden_set']} version {plan['version']}, {plan['half']} half, {len(run.items)} questions",
        "reviewed": f"{_reviewed(run)} of {len(run.items)} questions by a person",
        "asked on": manifest.created_at,
        "judge": run.judge or "none",
    }
    for name in ("command", "commit", "machine"):
        if manifest.facts.get(name):
            facts[name] = str(manifest.facts[name])
    models = sorted({one.answered.model for one in run.records if one.answered is not None and one.answered.model})
    if models:
        facts["answered by"] = ", ".join(models)
    return facts


def _reviewed(run: Finished) -> int:
    return sum(bool(item.reviewer) for item in run.items)


def _notes(run: Finished) -> list[str]:
    notes: list[str] = []
    if (left := len(run.items) - _reviewed(run)) > 0:
        notes.append(
            f"Nobody has reviewed {left} of the {len(run.items)} questions: where a figure is low, a question may be "
            "wrong, and not the answer."
        )
    if run.judge in STAND_INS:
        notes.append(
            f"The judge is {run.judge}: a program that compares words, not a model. Its figures show that the path "
            "works and catch gross changes; they are not figures of a judge."
        )
    if any(one.evidence is Evidence.QUOTES for one in run.records):
        notes.append(
            "The stack did not tell what the model was shown, so passages are only what answers cite: precision and "
            "recall of passages are those of the citations."
        )
    failed = sum(one.answered is None for one in run.records)
    if failed:
        notes.append(f"{failed} of {len(run.records)} questions failed; they are in no mean. See coverage.")
    return notes


def _row(metric: str, variants: Sequence[VariantSummary]) -> Row:
    bound = thresholds.BOUNDS.get(metric)
    cells = [one.means.get(metric) for one in variants]
    broken = [
        bound is not None and cell is not None and cell.mean is not None and bound.is_broken(cell.mean)
        for cell in cells
    ]
    return Row(metric, bound.text if bound else "", cells, broken)


def _comparisons(run: Finished, scores: Mapping[str, Mapping[str, Mapping[str, Score]]]) -> list[Comparison]:
    names = [one.name for one in run.variants]
    families = families_of(run.items)
    found: list[Comparison] = []
    for other in names[1:]:
        compared = compare(scores.get(other, {}), scores.get(names[0], {}), families)
        if compared:
            found.append(Comparison(other, other in baselines.NAMES, compared))
    return found


def _strata(one: VariantSummary) -> list[StrataTable]:
    strata = list(dict.fromkeys(stratum for stratum, _ in one.parts))
    languages = list(dict.fromkeys(language for _, language in one.parts))
    found: list[StrataTable] = []
    for metric in _STRATA_METRICS:
        rows = [(name, [one.parts[name, language].get(metric) for language in languages]) for name in strata]
        kept = [(name, cells) for name, cells in rows if any(cell is not None for cell in cells)]
        if len(kept) > 1:
            found.append(StrataTable(metric, languages, kept))
    return found


def _tools(variant: str, selection: Selection, figures: ToolFigures) -> ToolsView:
    names = [*selection.tools, NONE]
    matrix = [(expected, [selection.confusion.get((expected, called), 0) for called in names]) for expected in names]
    most = max((count for _, counts in matrix for count in counts), default=0)
    pairs = confused(selection, figures.descriptions)[:_MOST_CONFUSED]
    return ToolsView(variant, selection, names, matrix, most, pairs, {variant: selection, **figures.trivial})


def _times(records: Sequence[Record], variants: Sequence[str]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in variants}
    for one in records:
        if one.answered is not None and "total" in one.answered.milliseconds:
            found[one.variant].append(one.answered.milliseconds["total"])
    return found
