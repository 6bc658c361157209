"""Drift of all tenants, with references that outlive the process and that all replicas share."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.evaluation.answered import Answered
from services.evaluation.online.drift import QUESTIONS, TenantDrift, Verdict, Windows
from services.evaluation.online.references import ReferenceStore
from services.runtime.errors import ServiceError

log = logging.getLogger(__name__)

# A reference of some hundred values takes days: it is kept while it grows, in so many steps.
_STEPS = 10
_MOST_TENANTS = 1_000


@dataclass
class _Watched:
    """One tenant. `put`: values of each kind that the store has, as far as this process knows."""

    drift: TenantDrift
    put: dict[str, int] = field(default_factory=dict[str, int])


class DriftWatch:
    """Compares each tenant's answers. While the store is lost nothing is compared, since nothing is known."""

    def __init__(self, windows: Windows, store: ReferenceStore) -> None:
        self._windows = windows
        self._store = store
        self._tenants: OrderedDict[str, _Watched] = OrderedDict()
        self._one_at_a_time = asyncio.Lock()

    async def open(self) -> None:
        """Raises DependencyFailed."""
        await self._store.open()

    async def close(self) -> None:
        """Lets go."""
        await self._store.close()

    async def add(self, tenant: str, answered: Answered, vector: NDArray[np.float64] | None) -> list[Verdict]:
        """Takes an answer; the verdicts of the windows that it completes. `vector`: of its question. Never raises.

        A kind whose change was accepted differs in nothing from then on, though it is long until it is compared again.
        """
        accepted: list[Verdict] = []
        async with self._one_at_a_time:
            try:
                watched = await self._watched(tenant)
                if watched.drift.is_due:
                    # Somebody may have accepted a change, and another replica may have been first.
                    accepted = await self._refresh(tenant, watched)
                await self._fit(tenant, watched, vector)
            except ServiceError as error:
                log.warning("traffic is not compared", extra={"tenant": tenant, "reason": error.message})
                return []
            verdicts = await asyncio.to_thread(watched.drift.add, answered, vector)
            try:
                await self._keep(tenant, watched)
            except ServiceError as error:
                log.warning("a reference is not kept", extra={"tenant": tenant, "reason": error.message})
        return [*accepted, *verdicts]

    async def _watched(self, tenant: str) -> _Watched:
        if tenant not in self._tenants:
            kept = await self._store.get(tenant)
            watched = _Watched(TenantDrift(self._windows), _lengths(kept))
            watched.drift.restore(kept)
            self._tenants[tenant] = watched
            if len(self._tenants) > _MOST_TENANTS:
                self._tenants.popitem(last=False)
        self._tenants.move_to_end(tenant)
        return self._tenants[tenant]

    async def _refresh(self, tenant: str, watched: _Watched) -> list[Verdict]:
        """Verdicts on the kinds that begin anew."""
        # What could not be put when it was due is put now, or it would be taken for deleted.
        await self._keep(tenant, watched)
        kept = await self._store.get(tenant)
        # What still grows here goes on, unless another process is further with it.
        growing = {
            kind: values
            for kind, values in watched.drift.references.items()
            if len(kept.get(kind, ())) <= len(values) < self._windows.reference
        }
        whole = [kind for kind, values in watched.drift.references.items() if len(values) >= self._windows.reference]
        watched.drift.restore({**kept, **growing})
        watched.put = _lengths(kept)
        return [Verdict(kind, 0.0, 1.0, is_drift=False) for kind in whole if kind not in kept]

    async def _keep(self, tenant: str, watched: _Watched) -> None:
        step = max(1, self._windows.reference // _STEPS)
        for kind, values in watched.drift.references.items():
            is_whole = len(values) >= self._windows.reference
            grown = len(values) - watched.put.get(kind, 0)
            if grown >= step or (grown and is_whole):
                await self._store.put(tenant, kind, values)
                watched.put[kind] = len(values)

    async def _fit(self, tenant: str, watched: _Watched, vector: NDArray[np.float64] | None) -> None:
        """Vectors of another model do not compare with those of this one: its questions begin anew."""
        known = watched.drift.references[QUESTIONS]
        if vector is not None and len(known) and len(known[0]) != len(vector):
            watched.drift.forget(QUESTIONS)
            watched.put.pop(QUESTIONS, None)
            await self._store.delete(tenant, QUESTIONS)


def _lengths(kept: Mapping[str, Sequence[Any]]) -> dict[str, int]:
    return {kind: len(values) for kind, values in kept.items()}
