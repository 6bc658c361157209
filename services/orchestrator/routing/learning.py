"""Keeps what the router has learned, by tenant, and learns anew when the tenant's file or its foreign tools change."""

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from services.orchestrator.routing.encoder import Encoded, Floats, QueryEncoder
from services.orchestrator.routing.examples import IMPORTANCE, built_in, examples_of, foreign
from services.orchestrator.routing.head import Head, learn
from services.orchestrator.routing.reviewed import Reviewed, reviewed
from services.orchestrator.routing.shipped import Shipped, committed
from services.orchestrator.routing.wording import punctuated
from services.orchestrator.tools import Tool
from services.runtime import tasks
from services.runtime.errors import ServiceError
from services.runtime.tenants import Tenant, TenantDirectory

_BATCH_TEXTS, _BATCH_SECONDS = 32, 10.0
_MAX_TENANTS, _MAX_VECTORS = 500, 50_000


@dataclass(frozen=True)
class Learned:
    """What one tenant's questions are told apart by. `model` made the vectors of `head`."""

    tenant: Tenant | None
    foreign: Mapping[str, str]
    model: str
    head: Head
    reviewed: Mapping[str, Reviewed]


class Lessons:
    """Learns. The vectors of examples are kept, so that a tenant costs its own examples only."""

    def __init__(
        self,
        encoder: QueryEncoder,
        tenants: TenantDirectory,
        retry_seconds: float = 3,
        examples: Mapping[str, Sequence[str]] | None = None,
        shipped: Shipped | None = None,
    ) -> None:
        """`retry_seconds`: until an encoder that failed is asked again. `examples`: by label, for any company.

        `shipped`: vectors that are known beforehand, if the encoder's model is theirs; else those of the package.
        """
        self._examples = built_in() if examples is None else examples
        self._ours = [punctuated(text) for texts in self._examples.values() for text in texts]
        self._shared: Floats | None = None
        self._shipped = committed() if shipped is None else shipped
        self._encoder = encoder
        self._retry_seconds = retry_seconds
        self._tenants = tenants
        self._learned: OrderedDict[str, Learned] = OrderedDict()
        self._learning: dict[str, asyncio.Task[Learned]] = {}
        self._vectors: OrderedDict[str, Floats] = OrderedDict()
        self._beginning: asyncio.Task[None] | None = None
        self._model = ""
        self._failed: tuple[float, ServiceError] | None = None

    async def of(self, tenant_id: str, tools: Mapping[str, Tool]) -> Learned:
        """What is known for the tenant as it is now; the first one who asks waits longest. Raises ServiceError."""
        tenant, others = self._tenants.get(tenant_id), foreign(tools)
        known = self._learned.get(tenant_id)
        if known and known.tenant is tenant and known.foreign == others and known.model == self._model:
            self._learned.move_to_end(tenant_id)
            return known
        if self._failed and self._failed[0] > time.monotonic():
            raise self._failed[1].with_traceback(None)
        if tenant_id not in self._learning:
            self._learning[tenant_id] = asyncio.create_task(self._learn(tenant_id, tenant, others))
            self._learning[tenant_id].add_done_callback(lambda task: self._ended(tenant_id, task))
        return await asyncio.shield(self._learning[tenant_id])

    def begin(self, act_for: Callable[[str], None]) -> None:
        """Learns all tenants in the background, so that nobody's first question waits for it.

        `act_for`: makes a tenant the one for whom the encoder is asked. One that does not answer yet is asked again.
        """
        self._beginning = asyncio.create_task(self._begin(act_for))

    async def _begin(self, act_for: Callable[[str], None]) -> None:
        for tenant_id in self._tenants.all():
            act_for(tenant_id)
            while True:
                with contextlib.suppress(ServiceError):
                    await self.of(tenant_id, {})
                    break
                await asyncio.sleep(self._retry_seconds)

    def met(self, model: str) -> None:
        """Notes which model made a question's vector: what was learned from another one is of no use."""
        if model != self._model:
            self._model, self._shared = model, None
            self._vectors.clear()

    async def close(self) -> None:
        """Ends what is being learned."""
        await tasks.end(self._beginning)
        running = list(self._learning.values())
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _ended(self, tenant_id: str, task: asyncio.Task[Learned]) -> None:
        self._learning.pop(tenant_id, None)
        # Whoever waited may have gone: the error must not be reported as one that nobody looked at.
        error = None if task.cancelled() else task.exception()
        if isinstance(error, ServiceError):
            self._failed = time.monotonic() + self._retry_seconds, error

    async def _learn(self, tenant_id: str, tenant: Tenant | None, others: Mapping[str, str]) -> Learned:
        examples = examples_of(tenant, others, self._examples)
        labels, texts = [label for label, _ in examples], [text for _, text in examples]
        vectors = await self._encoded([punctuated(text) for text in texts])
        # Ours are the first, and one block in memory for all tenants.
        if self._shared is None:
            self._shared = vectors[: len(self._ours)].copy()
        blocks = [self._shared, vectors[len(self._ours) :].copy()]
        head = await asyncio.to_thread(learn, texts, blocks, labels, importance=IMPORTANCE)
        queries = {
            name: reviewed(name, query, source)
            for source in (tenant.sql if tenant else ())
            for name, query in source.verified_queries.items()
        }
        learned = self._learned[tenant_id] = Learned(tenant, others, self._model, head, queries)
        if len(self._learned) > _MAX_TENANTS:
            self._learned.popitem(last=False)
        return learned

    async def _encoded(self, texts: Sequence[str]) -> Floats:
        """Vectors of all texts. What was encoded before a failure stays known."""
        if any(text not in self._vectors for text in self._ours):
            await self._unpack()
        missing = list(dict.fromkeys(text for text in texts if text not in self._vectors))
        for start in range(0, len(missing), _BATCH_TEXTS):
            batch = missing[start : start + _BATCH_TEXTS]
            self._know(batch, await self._encoder.encode(batch, _BATCH_SECONDS))
        if any(text not in self._vectors for text in texts):  # the model changed on the way
            return await self._encoded(texts)
        vectors = np.stack([self._vectors[text] for text in texts])
        while len(self._vectors) > _MAX_VECTORS:
            self._vectors.popitem(last=False)
        return vectors

    async def _unpack(self) -> None:
        """Takes the vectors that ship with the product, if the encoder shows that they are its own."""
        probes = self._shipped.probes([text for text in self._ours if text not in self._vectors])
        if not probes:
            return
        encoded = await self._encoder.encode(probes, _BATCH_SECONDS)
        self._know(probes, encoded)
        if self._shipped.agrees(probes, encoded):
            self._vectors.update(self._shipped.of([text for text in self._ours if text not in self._vectors]))

    def _know(self, texts: Sequence[str], encoded: Encoded) -> None:
        self.met(encoded.model)
        self._vectors.update(zip(texts, encoded.vectors, strict=True))
