"""How far a replica is behind, from places in the primary's log and from the age of its last commit."""

import math

from hypothesis import given
from hypothesis import strategies as st

from services.sql_tool.lag import PrimaryLog, Replica

AT, PLACE = st.floats(0, 1e6), st.integers(0, 2**40)


@given(st.lists(st.tuples(AT, PLACE)), PLACE, st.none() | st.floats(-10, 1e6), PLACE)
def test_what_shows_nothing_counts_as_infinitely_late(marks, place, age, told):
    log = PrimaryLog()
    for at, mark in sorted(marks):
        log.note(at, mark)
    log.told(told)
    found = log.seconds_behind(Replica(True, place, age), 1e6)
    shown = any(mark <= place for _, mark in sorted(marks)[-16:]) or age is not None
    assert found >= 0
    assert math.isfinite(found) == (shown and place >= told)
    assert log.seconds_behind(Replica(False), 1e6) == 0


def test_a_replica_is_as_late_as_the_last_place_of_the_primary_that_it_has_reached():
    log = PrimaryLog()
    log.note(10, 100)
    log.note(20, 200)
    assert log.seconds_behind(Replica(True, 150, age=3600), now=25) == 15
    assert log.seconds_behind(Replica(True, 200, age=3600), now=25) == 5


def test_a_commit_that_is_young_shows_more_than_a_place_that_was_noted_long_ago():
    log = PrimaryLog()
    log.note(10, 100)
    assert log.seconds_behind(Replica(True, 150, age=1), now=25) == 1
