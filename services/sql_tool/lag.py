"""How far a read replica is behind its primary, as far as it can be shown.

Two things show it, and the better one counts. The replica's last replayed commit is so old (an idle primary commits
nothing, so this alone says little). And the primary's place in its log was noted at a known moment: a replica that has
replayed that place is no further behind than that moment is ago. Neither trusts what a replica believes of its link: a
hung one looks as if there was nothing new.
"""

import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from prometheus_client import Counter

from services.runtime.tenants import SqlSource

BEHIND = Counter(
    "sabueso_sql_tool_replicas_behind_total",
    "Times that a read replica was passed over, because it was further behind than its source allows.",
)
# The primary's place is asked for so often at most, however many statements run.
_LOOK_SECONDS = 1.0
_KEPT_MARKS = 16
_ANSWER_SECONDS = 3.0

# In bytes since the log began; both may be called by anybody.
PRIMARY_PLACE = (
    "SELECT CASE WHEN pg_is_in_recovery() THEN NULL ELSE pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint END"
)
_REPLICA_PLACE = """
SELECT pg_is_in_recovery() AS standby, pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint AS place,
       extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8 AS age
"""

# Asks the primary for its place; None when it does not answer.
AskPrimary = Callable[[], Awaitable[int | None]]


@dataclass(frozen=True)
class Replica:
    """What a server says of itself. `place`: bytes of log replayed; `age`: seconds since the last replayed commit."""

    standby: bool
    place: int | None = None
    age: float | None = None


class PrimaryLog:
    """Where a primary's log was, and when; times in seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._marks: list[tuple[float, int]] = []
        self.told_place = 0

    def note(self, at: float, place: int) -> None:
        """At this moment it was at this place, or further."""
        self._marks = [*self._marks[-_KEPT_MARKS + 1 :], (at, place)]

    def told(self, place: int) -> None:
        """A change before this place has been told of: who reads from now on must see it."""
        self.told_place = max(self.told_place, place)

    def noted_since(self, at: float) -> bool:
        """Whether its place was noted after this moment."""
        return bool(self._marks) and self._marks[-1][0] >= at

    def seconds_behind(self, replica: Replica, now: float) -> float:
        """At most so many; infinite where nothing shows how many. 0 for what is no standby: nothing can be said."""
        if not replica.standby:
            return 0.0
        if replica.place is None or replica.place < self.told_place:
            return math.inf
        reached = [now - at for at, place in self._marks if place <= replica.place]
        return max(0.0, min([*reached, math.inf if replica.age is None else replica.age]))


class Lag:
    """The logs of all primaries, by the secret that holds the primary's DSN."""

    def __init__(self) -> None:
        self._logs: dict[str, PrimaryLog] = {}

    def told(self, source: SqlSource, place: int) -> None:
        """See PrimaryLog.told."""
        self._log(source).told(place)

    def matters(self, source: SqlSource) -> bool:
        """Whether its replicas must be looked at."""
        return source.replica_max_lag_seconds > 0 or self._log(source).told_place > 0

    async def allows(self, source: SqlSource, connection: Any, ask_primary: AskPrimary) -> bool:
        """Whether the replica at the other end of `connection` is near enough. Raises what the driver raises."""
        log, limit = self._log(source), source.replica_max_lag_seconds or math.inf
        replica = await _said(connection)
        behind = log.seconds_behind(replica, time.monotonic())
        if behind > limit and not log.noted_since(time.monotonic() - min(_LOOK_SECONDS, limit / 2)):
            before = time.monotonic()
            place = await ask_primary()
            if place is not None:
                log.note(before, place)
                replica = await _said(connection)
                behind = log.seconds_behind(replica, time.monotonic())
        # Without a limit only a change that was told of counts.
        near = behind <= limit if source.replica_max_lag_seconds else not _misses(replica, log)
        if not near:
            BEHIND.inc()
        return near

    def _log(self, source: SqlSource) -> PrimaryLog:
        return self._logs.setdefault(source.dsn_secret, PrimaryLog())


def _misses(replica: Replica, log: PrimaryLog) -> bool:
    return replica.standby and (replica.place or 0) < log.told_place


async def _said(connection: Any) -> Replica:
    row = await connection.fetchrow(_REPLICA_PLACE, timeout=_ANSWER_SECONDS)
    return Replica(row["standby"], row["place"], row["age"])
