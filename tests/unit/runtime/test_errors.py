from datetime import timedelta

import pytest
from google.rpc import error_details_pb2
from grpc.aio import AioRpcError, Metadata

from services.runtime import errors


def as_rpc_error(status):
    trailing = Metadata(("grpc-status-details-bin", status.SerializeToString()))
    code = next(code for code in errors.StatusCode if code.value[0] == status.code)
    return AioRpcError(code, Metadata(), trailing, details=status.message)


@pytest.mark.parametrize("cls", errors.ALL)
def test_every_error_survives_the_journey(cls):
    sent = cls("what happened", retry_after=timedelta(seconds=3), field="x")
    arrived = errors.from_rpc(as_rpc_error(errors.to_status(sent)), "somewhere")
    assert type(arrived) is cls
    assert (arrived.message, arrived.metadata, arrived.retry_after) == (
        "what happened",
        {"field": "x"},
        sent.retry_after,
    )


def test_reasons_are_unique():
    assert len({cls.reason for cls in errors.ALL}) == len(errors.ALL)


def test_an_invalid_field_is_named_in_a_bad_request():
    status = errors.to_status(errors.InvalidField("`top_k` is 0.", field="top_k"))
    detail = error_details_pb2.BadRequest()
    assert status.details[1].Unpack(detail)
    assert detail.field_violations[0].field == "top_k"


@pytest.mark.parametrize(
    ("code", "cls"),
    [
        (errors.StatusCode.UNAVAILABLE, errors.DependencyFailed),
        (errors.StatusCode.DEADLINE_EXCEEDED, errors.DeadlineExceeded),
        (errors.StatusCode.UNIMPLEMENTED, errors.NotFound),
    ],
)
def test_silence_is_named_after_the_service(code, cls):
    error = errors.from_rpc(AioRpcError(code, Metadata(), Metadata()), "sql_tool")
    assert type(error) is cls
    assert "sql_tool" in error.message


def test_a_bug_elsewhere_is_not_explained():
    assert errors.from_rpc(as_rpc_error(errors.internal_status()), "sql_tool") is None


def test_what_repeats_a_long_text_of_the_caller_still_fits_into_metadata():
    status = errors.to_status(
        errors.InvalidField("`" + "ñ" * 100_000 + "` is none.", field="x" * 100_000, hint="y" * 9_000)
    )
    assert status.ByteSize() < 8_000
    assert status.message.endswith("…")
