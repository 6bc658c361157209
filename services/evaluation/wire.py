"""Runs in the proto's words."""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from google.protobuf.timestamp_pb2 import Timestamp

from sabueso.evaluation.v1 import evaluation_pb2 as pb
from services.evaluation.runs.store import Measurement, Run, RunStatus
from services.evaluation.runs.variant import Variant, WrongVariant
from services.runtime.errors import InvalidField

_STATUSES: Mapping[RunStatus, "pb.RunStatus.ValueType"] = {
    RunStatus.WAITING: pb.RUN_STATUS_WAITING,
    RunStatus.RUNNING: pb.RUN_STATUS_RUNNING,
    RunStatus.DONE: pb.RUN_STATUS_DONE,
    RunStatus.FAILED: pb.RUN_STATUS_FAILED,
    RunStatus.CANCELLED: pb.RUN_STATUS_CANCELLED,
}


def run_message(run: Run, measurements: Sequence[Measurement] = ()) -> pb.Run:
    """A run. Where nothing is scored a measurement has no estimate."""
    created = Timestamp()
    created.FromDatetime(run.created_at)
    return pb.Run(
        run_id=run.run_id,
        golden_set=run.golden_set,
        status=_STATUSES[run.status],
        reason=run.reason,
        measurements=[_measurement(one) for one in measurements],
        create_time=created,
        done_count=run.done_count,
        wanted_count=run.wanted_count,
    )


def variants_of(messages: Sequence[pb.Variant]) -> tuple[Variant, ...]:
    """Raises InvalidField."""
    try:
        return tuple(
            Variant.of(one.name, {name: _value(text) for name, text in one.settings.items()}) for one in messages
        )
    except (WrongVariant, yaml.YAMLError) as error:
        raise InvalidField(str(error), field="variants") from None


def _value(text: str) -> Any:
    return yaml.safe_load(text)


def _measurement(one: Measurement) -> pb.Measurement:
    estimate = None
    if one.mean is not None and one.low is not None and one.high is not None:
        estimate = pb.Estimate(mean=one.mean, low=one.low, high=one.high)
    return pb.Measurement(
        metric=one.metric,
        mean=one.mean or 0.0,
        scored_count=one.scored_count,
        missing_count=one.missing_count,
        variant=one.variant,
        stratum=one.stratum,
        language=one.language,
        low=one.low or 0.0,
        high=one.high or 0.0,
        estimate=estimate,
    )
