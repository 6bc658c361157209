"""Fits the router's confidence: each example and development question is routed by all others that are not like it."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from services.orchestrator.routing.calibration import Calibration
from services.orchestrator.routing.encoder import Floats, QueryEncoder
from services.orchestrator.routing.examples import NONE, examples_of
from services.orchestrator.routing.head import learn
from services.orchestrator.routing.segments import segment
from services.orchestrator.trials.router_cases import SOURCES, Case, Judged
from services.runtime.tenants import Tenant

# A translation, or the same question with another noun: it would tell nothing of questions that are new.
_TOO_NEAR = 0.93
_BATCH = 32


async def fit(encoder: QueryEncoder, tenant: Tenant, cases: Sequence[Case], judged: Sequence[Judged]) -> Calibration:
    """The parameters under which the outcomes are likeliest. `judged`: the same cases, as routed."""
    known = [(label, text) for label, text in examples_of(tenant, {})]
    known += [(_label(one), one.question) for one in cases if len(one.calls) < 2]
    labels, texts = [label for label, _ in known], [text for _, text in known]
    vectors = await encoded(encoder, texts)
    leads, right = _held_out(texts, vectors, labels)
    slope, intercept = _platt(leads, right)
    fits = [one.right for one in judged if any(name not in SOURCES for name in one.route.tools)]
    return Calibration(round(slope, 3), round(intercept, 3), round((sum(fits) + 1) / (len(fits) + 2), 3))


def _label(case: Case) -> str:
    name = case.tools[0] if case.calls else NONE
    return name if name in (*SOURCES, NONE) else "sql_query"


def _held_out(texts: Sequence[str], vectors: Floats, labels: Sequence[str]) -> tuple[list[float], list[bool]]:
    """Lead of the best label, and whether it was right, of each text by a head that has seen nothing like it."""
    near = vectors @ vectors.T > _TOO_NEAR
    leads: list[float] = []
    right: list[bool] = []
    for at, text in enumerate(texts):
        kept = [index for index in range(len(texts)) if not near[at, index]]
        head = learn([texts[index] for index in kept], vectors[kept], [labels[index] for index in kept])
        said = segment(text, head.scores(text, vectors[at]))
        leads.append(said.lead)
        right.append(said.label == labels[at])
    return leads, right


def _platt(leads: Sequence[float], right: Sequence[bool]) -> tuple[float, float]:
    """Slope and intercept of the logistic function, with Platt's smoothed targets (1999, section 2.2)."""
    minimize = import_module("scipy.optimize").minimize  # it has no types
    lead, hits = np.array(leads), np.array(right, float)
    successes, failures = sum(right), len(right) - sum(right)
    targets = hits * (successes + 1) / (successes + 2) + (1 - hits) / (failures + 2)

    def loss(values: Any) -> float:
        logit = float(values[0]) * lead + float(values[1])
        return float(np.mean(np.logaddexp(0, logit) - targets * logit))

    slope, intercept = minimize(loss, np.array([8.0, 0.0])).x
    return float(slope), float(intercept)


async def encoded(encoder: QueryEncoder, texts: Sequence[str]) -> Floats:
    """Vectors of any number of texts."""
    starts = range(0, len(texts), _BATCH)
    found = [(await encoder.encode(texts[start : start + _BATCH], 60)).vectors for start in starts]
    return np.vstack(found)
