"""What one request takes of its limits: taken once, settled once, whatever becomes of the request."""

import asyncio
import os

from services.gateway.limits.decision import Decision, Limiter, LimiterUnavailable, Receipt, Spent, StoreLost
from services.gateway.limits.metrics import DECISIONS, LATE, LEASES, OVERSPENT, REFUNDED, RESERVED, UNMETERED
from services.gateway.limits.plan import TOKEN_KINDS, Limit
from services.gateway.metering import Meter

_ADMITTED = DECISIONS.labels("admitted")
# Tasks that nobody waits for any more, because the client has gone.
_running: set[asyncio.Task[None]] = set()


class Charge:
    """One request's account.

    Whoever runs the request says how it went: `status` of its answer as soon as there is one, `finished` at its end,
    `failed` when it ended by a mistake of ours before an answer began.
    """

    def __init__(self, limiter: Limiter, tenant: str, meter: Meter) -> None:
        self.status = 0
        self.finished = False
        self.failed = False
        self._limiter = limiter
        self._tenant = tenant
        self._meter = meter
        self._lease = os.urandom(16).hex()
        self._unasked: Receipt | None = None
        self._admitting: asyncio.Task[Decision] | None = None
        self._settling: asyncio.Task[None] | None = None

    async def admit(self, plan: tuple[Limit, ...], tokens: int, least: int | None = None) -> Decision:
        """Asks for what the request needs, as a limiter does. Raises LimiterUnavailable and StoreLost."""
        # A task, so that a client who hangs up now does not leave in doubt what was taken.
        self._admitting = asyncio.create_task(self._admit(plan, tokens, least))
        return await asyncio.shield(self._admitting)

    def count_only(self, plan: tuple[Limit, ...]) -> None:
        """For our own services, whom nobody refuses: nothing is asked, and what they spend is charged at the end."""
        limits = tuple(limit for limit in plan if limit.kind in TOKEN_KINDS)
        self._unasked = Receipt(self._tenant, self._lease, limits)

    async def settle(self) -> None:
        """Charges what was spent and gives the lease back; once only, and though its caller be cancelled meanwhile."""
        await asyncio.shield(self._settled())

    async def begin_to_settle(self) -> None:
        """The same without waiting for the store's answer: whatever is asked of it after this comes after this."""
        if not self._settled().done():
            await asyncio.sleep(0)  # the task's first step, up to the answer

    def _settled(self) -> asyncio.Task[None]:
        if self._settling is None:
            self._settling = asyncio.create_task(self._settle())
            _running.add(self._settling)
            self._settling.add_done_callback(_running.discard)
        return self._settling

    async def _admit(self, plan: tuple[Limit, ...], tokens: int, least: int | None) -> Decision:
        try:
            decision = await self._limiter.admit(self._tenant, plan, self._lease, tokens, least)
        except (LimiterUnavailable, StoreLost):
            DECISIONS.labels("unavailable").inc()
            raise
        refused = decision.refused_by
        (_ADMITTED if refused is None else DECISIONS.labels(refused.limit.kind)).inc()
        if decision.receipt is not None:
            LEASES.inc()
            RESERVED.inc(tokens)
        return decision

    async def _settle(self) -> None:
        receipt = self._unasked
        if self._admitting is not None:
            if not self._admitting.done():
                await asyncio.wait({self._admitting})
            receipt = None if self._admitting.exception() else self._admitting.result().receipt
            if receipt is not None:
                LEASES.dec()
        if receipt is None or not receipt.limits:
            return
        spent = self._spent(reserved=receipt is not self._unasked)
        if receipt is self._unasked and not spent.tokens:
            return
        try:
            await self._limiter.settle(receipt, spent)
        except StoreLost:
            LATE.labels("dropped").inc()  # the lease expires, and what was reserved stays charged

    def _spent(self, *, reserved: bool) -> Spent:
        meter = self._meter
        if not meter.dispatched:
            # The agent's turns were charged one by one; together they count for the name that it goes by.
            return Spent(0, meter.prompt_tokens + meter.completion_tokens if meter.exact else 0)
        tokens = meter.spent_tokens
        if not meter.exact:
            if self.failed or self.status >= 400:
                tokens = 0
            elif self.finished:
                UNMETERED.inc()
                if reserved and not meter.completion_tokens:
                    return Spent(as_reserved=True)
        aside = meter.reserved_tokens if reserved else 0
        (REFUNDED if aside > tokens else OVERSPENT).inc(abs(aside - tokens))
        return Spent(tokens, tokens)
