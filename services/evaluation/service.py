"""The servicer: checks, translates, calls, translates."""

from collections.abc import Callable, Collection
from typing import Any

from sabueso.evaluation.v1 import evaluation_pb2 as pb
from sabueso.evaluation.v1 import evaluation_pb2_grpc as rpc
from services.evaluation.online.offers import Offers
from services.evaluation.online.service import OffersServicer
from services.evaluation.runs.queue import Request, RunQueue
from services.evaluation.runs.store import RunStore
from services.evaluation.wire import run_message, variants_of
from services.runtime.context import identity, tenant
from services.runtime.errors import InvalidField, NotFound

_PAGE, _LARGEST_PAGE = 50, 200
_MOST_NOISE = 20


class EvaluationServicer(OffersServicer, rpc.EvaluationServiceServicer):
    """Starts runs and tells of them; takes answers of live traffic."""

    def __init__(
        self,
        queue: RunQueue,
        store: RunStore,
        sets: Callable[[], Collection[str]],
        metrics: Collection[str],
        offers: Offers,
    ) -> None:
        """`sets`: names of the golden sets that there are; `metrics`: all that can be wanted."""
        self._queue = queue
        self._store = store
        self._sets = sets
        self._metrics = metrics
        self.offers = offers

    async def Evaluate(self, request: pb.EvaluateRequest, context: Any) -> pb.EvaluateResponse:
        """See the proto."""
        if not request.golden_set:
            raise InvalidField("golden_set: name one.", field="golden_set")
        if request.golden_set not in self._sets():
            raise NotFound(f"There is no golden set `{request.golden_set}`.", golden_set=request.golden_set)
        if unknown := sorted(set(request.metrics) - set(self._metrics)):
            raise InvalidField(f"metrics: there is no {', '.join(unknown)}.", field="metrics")
        if request.question_limit < 0:
            raise InvalidField("question_limit: it cannot be below 0.", field="question_limit")
        if not 0 <= request.noise_count <= _MOST_NOISE:
            raise InvalidField(f"noise_count: from 0 to {_MOST_NOISE}.", field="noise_count")
        who = identity()
        wanted = Request(
            who.tenant,
            request.golden_set,
            variants_of(request.variants),
            tuple(request.metrics),
            not request.without_baselines,
            request.question_limit,
            request.noise_count,
            request.test_reason.strip(),
            who.principal or who.tenant,
        )
        return pb.EvaluateResponse(run=run_message(await self._queue.put(wanted)))

    async def GetRun(self, request: pb.GetRunRequest, context: Any) -> pb.GetRunResponse:
        """See the proto."""
        run = await self._store.get(tenant(), request.run_id)
        if run is None:
            raise NotFound(f"There is no run `{request.run_id}`.", run_id=request.run_id)
        return pb.GetRunResponse(run=run_message(run, await self._store.measurements(run.run_id)))

    async def ListRuns(self, request: pb.ListRunsRequest, context: Any) -> pb.ListRunsResponse:
        """See the proto."""
        if not 0 <= request.page_size <= _LARGEST_PAGE:
            raise InvalidField(f"page_size: from 0 to {_LARGEST_PAGE}.", field="page_size")
        size = request.page_size or _PAGE
        found = await self._store.list_runs(tenant(), size + 1, request.page_token)
        token = found[size - 1].run_id if len(found) > size else ""
        return pb.ListRunsResponse(runs=[run_message(run) for run in found[:size]], next_page_token=token)

    async def CancelRun(self, request: pb.CancelRunRequest, context: Any) -> pb.CancelRunResponse:
        """See the proto."""
        return pb.CancelRunResponse(run=run_message(await self._queue.cancel(tenant(), request.run_id)))
