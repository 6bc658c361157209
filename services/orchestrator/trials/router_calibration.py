"""Fits the router's confidence: each example and development question is routed by all others that are not like it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from services.orchestrator.routing.choice import Calibration, Scores, candidates, traits
from services.orchestrator.routing.embedding_router import least_confidence
from services.orchestrator.routing.encoder import Floats, QueryEncoder
from services.orchestrator.routing.examples import IMPORTANCE, NONE, examples_of
from services.orchestrator.routing.head import PLUS, Lesson, lesson
from services.orchestrator.routing.wording import cleaned, fragments, punctuated
from services.orchestrator.trials.router_cases import SOURCES, Case, Judged
from services.runtime.tenants import Tenant

# A translation, the same question with another noun, or one of the same subject: what is new is not like these.
_TOO_NEAR = 0.91
_BATCH = 32
# Keeps the weights from growing where the traits say the same.
_SHRINKAGE = 1e-4


@dataclass(frozen=True)
class HeldOut:
    """What a head says of a text and its fragments that has seen nothing like it, and the tools that it needs."""

    whole: Scores
    parts: Sequence[Scores]
    needed: frozenset[str]


@dataclass(frozen=True)
class Fitted:
    """The calibration, and what it was fitted on."""

    calibration: Calibration
    held_out: Sequence[HeldOut]

    def report(self, min_confidence: float) -> list[str]:
        """Rows of what the router would decide of these texts, all new to it, and no tenant's examples like them."""
        several = [one for one in self.held_out if len(one.needed) > 1]
        single = [one for one in self.held_out if len(one.needed) == 1]
        groups = {"each told by those unlike it": self.held_out, "one source": single, "several sources": several}
        return [self._row(name, group, min_confidence) for name, group in groups.items()]

    def _row(self, name: str, group: Sequence[HeldOut], min_confidence: float) -> str:
        chosen = [(one, self.calibration.choose(one.whole, one.parts)) for one in group]
        decided = [
            (one.needed, said.labels)
            for one, said in chosen
            if said.confidence >= least_confidence(min_confidence, none=not said.labels)
        ]
        none, some = [one for one in group if not one.needed], [one for one in group if one.needed]
        left = sum(bool(one.needed) for one in group) - sum(bool(needed) for needed, _ in decided)
        cells = (
            sum(needed == said for needed, said in decided) / len(decided),
            left / len(some),
            sum(not needed and not said for needed, said in decided) / len(none) if none else float("nan"),
            sum(bool(needed) and not said for needed, said in decided) / len(some),
        )
        return f"| {name} | {len(group)} | {' | '.join(f'{cell:.3f}' for cell in cells)} |"


async def fit(encoder: QueryEncoder, tenant: Tenant, cases: Sequence[Case], judged: Sequence[Judged]) -> Fitted:
    """The parameters under which the outcomes are likeliest. `judged`: those cases of which the routes are known."""
    known = [(label, text) for label, text in examples_of(tenant, {})]
    known += [(_label(one), cleaned(one.question)) for one in cases]
    labels, texts = [label for label, _ in known], [text for _, text in known]
    pieces = {text: fragments(cleaned(text)) for text in texts}
    spoken = list(dict.fromkeys(punctuated(one) for text in texts for one in (text, *pieces[text])))
    vectors = dict(zip(spoken, await encoded(encoder, spoken), strict=True))
    said = held_out(texts, vectors, labels, pieces)
    fits = [one.right for one in judged if any(name not in SOURCES for name in one.route.tools)]
    weights = {name: round(weight, 3) for name, weight in _likeliest(said).items()}
    return Fitted(Calibration(weights, round((sum(fits) + 1) / (len(fits) + 2), 3)), said)


def _label(case: Case) -> str:
    return PLUS.join(sorted({name if name in SOURCES else "sql_query" for name in case.tools})) or NONE


def held_out(
    texts: Sequence[str], known: Mapping[str, Floats], labels: Sequence[str], pieces: Mapping[str, Sequence[str]]
) -> list[HeldOut]:
    """What a head that has seen nothing like it says of each text. `known`: vectors by punctuated text.

    In closed form, without learning anew: with G the inverse of the gram matrix and α = G · targets, the dual weights
    without the examples B are α - G[:, B] G[B, B]⁻¹ α[B] (Rifkin & Lippert 2007, section 3).
    """
    vectors = np.stack([known[punctuated(text)] for text in texts])
    near = vectors @ vectors.T > _TOO_NEAR
    made = lesson(texts, vectors, labels, importance=IMPORTANCE)
    kernel = made.kernel(made.features, made.vectors)
    inverse = np.linalg.inv((kernel + np.diag(made.damping)).astype(np.float64))
    dual = inverse @ made.targets
    found: list[HeldOut] = []
    for at, text in enumerate(texts):
        out = np.flatnonzero(near[at])
        without = dual - inverse[:, out] @ np.linalg.solve(inverse[np.ix_(out, out)], dual[out])
        without[out] = 0
        rows = kernel[[at]]
        if parts := [punctuated(piece) for piece in pieces[text]]:
            smaller = np.stack([known[part] for part in parts])
            rows = np.vstack([rows, made.kernel(made.features_of(parts, smaller), smaller)])
        whole, *others = [_scores(made, one) for one in rows @ without + made.offset]
        found.append(HeldOut(whole, others, frozenset(labels[at].split(PLUS)) - {NONE}))
    return found


def _scores(made: Lesson, row: Floats) -> Scores:
    return dict(zip(made.labels, map(float, row), strict=True))


def _likeliest(held: Sequence[HeldOut]) -> Mapping[str, float]:
    """The weights that make what is needed likeliest, a little shrunk."""
    minimize = import_module("scipy.optimize").minimize  # it has no types
    sets = [candidates(one.whole, one.parts) for one in held]
    found = [traits(one.whole, one.parts, each) for one, each in zip(held, sets, strict=True)]
    names = sorted({name for each in found for one in each for name in one})
    table = np.array([[[one.get(name, 0.0) for name in names] for one in each] for each in found])
    right = np.array([each.index(one.needed) for one, each in zip(held, sets, strict=True)])
    rows = np.arange(len(held))

    def loss(weights: Any) -> tuple[float, Any]:
        logits = table @ weights
        logits -= logits.max(axis=1, keepdims=True)
        odds = np.exp(logits)
        shares = odds / odds.sum(axis=1, keepdims=True)
        slope = (np.einsum("nsf,ns->f", table, shares) - table[rows, right].sum(axis=0)) / len(rows)
        unlikely = -np.log(np.maximum(shares[rows, right], 1e-12)).mean()
        return float(unlikely + _SHRINKAGE * (weights @ weights) / 2), slope + _SHRINKAGE * weights

    options = {"maxiter": 2000}
    best = minimize(loss, np.zeros(len(names)), jac=True, method="L-BFGS-B", options=options).x
    return dict(zip(names, map(float, best), strict=True))


async def encoded(encoder: QueryEncoder, texts: Sequence[str]) -> Floats:
    """Vectors of any number of texts."""
    starts = range(0, len(texts), _BATCH)
    found = [(await encoder.encode(texts[start : start + _BATCH], 60)).vectors for start in starts]
    return np.vstack(found)
