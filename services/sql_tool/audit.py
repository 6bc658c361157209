"""Writes down who ran what: one line a statement, run or refused, to the logger `sabueso.audit`.

Text and values of a statement are data of the tenant. A line holds the SHA-256 of the text and a keyed hash of each
value: equal ones can be recognised and found again by whoever has the key, and nobody can guess them. A source with
`audit_parameters: plain` has them written out; with `none` the values are left out altogether.
"""

import hashlib
import hmac
import json
import logging
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from services.runtime import context
from services.runtime.errors import ServiceError
from services.runtime.tenants import SqlSource
from services.sql_tool.database import Plan, Result

log = logging.getLogger("sabueso.audit")

_HASH_CHARACTERS = 24
_OUTCOME_ON_CANCEL = "CANCELLED"
_OUTCOME_ON_BUG = "INTERNAL"


class Record:
    """What becomes known of one statement while it is checked and run. Set `values` and `tables` when they are."""

    def __init__(self) -> None:
        self.values: Sequence[object] = ()
        self.tables: Sequence[str] = ()
        self._facts: dict[str, Any] = {}

    def done(self, result: Result) -> None:
        """The statement ran."""
        self._facts = {
            "action": "run",
            "rows": len(result.rows),
            "bytes": result.value_bytes,
            "cost": round(result.plan_cost, 2),
            "truncated_by": result.truncated_by,
        }

    def planned(self, plan: Plan) -> None:
        """The statement was planned and not run."""
        self._facts = {"action": "plan", "cost": round(plan.total_cost, 2)}

    @property
    def facts(self) -> dict[str, Any]:
        """What the end of the statement added."""
        return self._facts


class AuditLog:
    """Writes the lines. `secret` keys the hashes of values; the same for all replicas."""

    def __init__(self, secret: bytes) -> None:
        # A key of its own: hashes in a log must not help against the signatures made with the secret.
        self._key = hmac.digest(secret, b"sabueso audit parameters", "sha256")

    @contextmanager
    def recording(self, source: SqlSource, sql: str, verified_query: str = "") -> Generator[Record]:
        """One line when the block ends, however it ends; the caller is that of the current call."""
        record = Record()
        started = time.perf_counter()
        outcome: dict[str, str] = {"outcome": _OUTCOME_ON_CANCEL}
        try:
            yield record
            outcome = {"outcome": "OK"}
        except ServiceError as error:
            outcome = {"outcome": error.reason} | {
                name: error.metadata[name] for name in ("rule", "sqlstate", "field", "stage") if name in error.metadata
            }
            raise
        except Exception:
            outcome = {"outcome": _OUTCOME_ON_BUG}
            raise
        finally:
            seconds = round(time.perf_counter() - started, 6)
            who = _caller()
            line = {
                **who,
                "source": source.name,
                **({"verified_query": verified_query} if verified_query else {}),
                **self._statement(source, sql, record.values, who["tenant"]),
                "tables": list(record.tables),
                **record.facts,
                "seconds": seconds,
                **outcome,
            }
            log.info("statement", extra=line)

    def _statement(self, source: SqlSource, sql: str, values: Sequence[object], tenant: str) -> dict[str, Any]:
        digest = hashlib.sha256(sql.encode("utf-8", "surrogatepass")).hexdigest()
        line: dict[str, Any] = {"statement_sha256": digest}
        match source.audit_parameters:
            case "plain":
                line["statement"] = sql
                line["parameters"] = [_text(value) for value in values]
            case "hashed":
                line["parameters"] = [self._hash(value, tenant) for value in values]
            case "none":
                pass
        return line

    def _hash(self, value: object, tenant: str) -> str | None:
        """The same for equal values of one tenant; None stays None."""
        if value is None:
            return None
        text = f"{tenant}\0{_text(value)}"
        return hmac.new(self._key, text.encode("utf-8", "surrogatepass"), "sha256").hexdigest()[:_HASH_CHARACTERS]


def _caller() -> dict[str, str]:
    call = context.current()
    if call is None:
        return {"tenant": "", "principal": ""}
    return {"tenant": call.identity.tenant, "principal": call.identity.principal}


def _text(value: object) -> str:
    """JSON text of a parameter; decimals stay exact."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=_plain)


def _plain(value: object) -> str:
    return str(value) if isinstance(value, Decimal) else repr(value)
