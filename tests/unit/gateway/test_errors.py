from datetime import timedelta

import pytest
from grpc import StatusCode
from starlette.exceptions import HTTPException

from services.gateway.errors import HTTP, ApiError, failure_of
from services.runtime import errors


def test_every_grpc_code_has_a_status():
    assert set(HTTP) == set(StatusCode)
    assert all(400 <= status < 600 and code for status, code in HTTP.values())


@pytest.mark.parametrize(
    ("cls", "status"),
    [
        (errors.InvalidField, 400),
        (errors.Unauthenticated, 401),
        (errors.NotPermitted, 403),
        (errors.NotFound, 404),
        (errors.SqlError, 400),
        (errors.ModelMismatch, 400),
        (errors.LimitExceeded, 429),
        (errors.Overloaded, 503),
        (errors.DependencyFailed, 503),
        (errors.DeadlineExceeded, 504),
    ],
)
def test_every_service_error_has_the_status_of_the_house(cls, status):
    failure = failure_of(cls("It is so."))
    assert (failure.status, failure.code, failure.message) == (status, cls.reason.lower(), "It is so.")


def test_all_service_errors_are_covered_above():
    assert len(errors.ALL) == 10


@pytest.mark.parametrize(("seconds", "header"), [(0.01, "1"), (1, "1"), (1.2, "2"), (30, "30")])
def test_a_retry_is_never_too_early_and_at_least_a_second(seconds, header):
    failure = failure_of(errors.Overloaded("Busy.", retry_after=timedelta(seconds=seconds)))
    assert failure.headers == {"Retry-After": header}


def test_a_bug_says_nothing():
    failure = failure_of(RuntimeError("dsn=postgres://u:p@h"))
    assert failure.status == 500
    assert "postgres" not in str(failure.body())


def test_the_body_is_openais_object():
    failure = failure_of(ApiError(400, "x: wrong.", code="invalid_field", param="x"))
    assert failure.body() == {
        "error": {"message": "x: wrong.", "type": "invalid_request_error", "param": "x", "code": "invalid_field"}
    }


def test_an_http_error_of_the_framework_has_the_same_shape():
    failure = failure_of(HTTPException(405, headers={"Allow": "POST"}))
    assert (failure.code, failure.headers) == ("method_not_allowed", {"Allow": "POST"})
    assert "POST" in failure.message
