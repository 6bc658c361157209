import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.gateway.limits.decision import Standing
from services.gateway.limits.headers import duration_text, limit_headers, retry_seconds
from services.gateway.limits.plan import Limit
from services.gateway.limits.refusals import CODES, refusal

# The machine may be busy.
PATIENTLY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

REQUESTS, TOKENS = Limit("tenant", "requests", "", 600), Limit("tenant", "tokens", "", 40_000)
KEY_REQUESTS, DAY = Limit("key", "requests", "app", 60), Limit("key", "daily_tokens", "app", 1000)
BUSY = Limit("model", "concurrency", "big", 4)
ITEM = r'"[a-z-]+"(;(q|w|r|t)=\d+|;qu="(tokens|concurrent-requests)")+'
LIST = re.compile(rf"{ITEM}(, {ITEM})*")


def test_durations_are_written_as_openai_does():
    texts = {0: "0ms", 0.12: "120ms", 1: "1s", 1.5: "1.5s", 59.9996: "1m0s", 360: "6m0s", 61.25: "1m1.25s"}
    assert {seconds: duration_text(seconds) for seconds in texts} == texts


def test_an_unlimited_caller_gets_no_limit_headers():
    assert limit_headers(()) == {}


def test_the_tightest_limit_comes_first():
    standings = [Standing(REQUESTS, 6, 0.55), Standing(TOKENS, 30_000, 45), Standing(KEY_REQUESTS, 57, 56.2)]
    assert limit_headers(standings) == {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "3",
        "x-ratelimit-reset-requests": "56.2s",
        "x-ratelimit-limit-tokens": "40000",
        "x-ratelimit-remaining-tokens": "10000",
        "x-ratelimit-reset-tokens": "45s",
        "RateLimit-Policy": '"tenant-requests";q=600;w=60, "tenant-tokens";q=40000;qu="tokens";w=60, '
        '"key-requests";q=60;w=60',
        "RateLimit": '"key-requests";r=3;t=57, "tenant-tokens";r=10000;t=45, "tenant-requests";r=594;t=1',
    }


def test_the_limit_that_refuses_comes_first_and_names_the_moment_of_retry_after():
    refusing = Standing(TOKENS, 39_700, 59.55, 0.3)
    headers = limit_headers([Standing(REQUESTS, 600, 60), Standing(BUSY, 4, 0), refusing])
    assert headers["RateLimit"].startswith('"tenant-tokens";r=300;t=1, ')
    assert refusal(refusing, 500).headers["Retry-After"] == "1"
    assert '"model-concurrency";r=0' in headers["RateLimit"]


@PATIENTLY
@given(
    st.lists(
        st.builds(
            Standing,
            st.sampled_from([REQUESTS, TOKENS, KEY_REQUESTS, DAY, BUSY]),
            st.integers(0, 1_000_000),
            st.floats(0, 100_000),
            st.just(0.0) | st.floats(1e-6, 100_000),
        ),
        min_size=1,
        unique_by=lambda one: one.limit,
    )
)
def test_whatever_was_overspent_headers_are_well_formed_and_never_below_nothing(standings):
    headers = limit_headers(standings)
    assert LIST.fullmatch(headers["RateLimit-Policy"])
    assert LIST.fullmatch(headers["RateLimit"])
    for name, value in headers.items():
        if "remaining" in name:
            assert 0 <= int(value) <= int(headers[name.replace("remaining", "limit")])
    refusing = [one for one in standings if one.wait_seconds]
    if refusing:
        longest = max(refusing, key=lambda one: one.wait_seconds)
        assert headers["RateLimit"].startswith(f'"{longest.limit.name}";')
        assert f";t={retry_seconds(longest)}" in headers["RateLimit"].partition(", ")[0]


def test_each_kind_of_refusal_has_its_code_and_says_whose_limit_it_was():
    for limit in (REQUESTS, TOKENS, DAY, BUSY):
        error = refusal(Standing(limit, limit.most, 10, 2.5), 700)
        assert error.status_code == 429
        assert error.code == CODES[limit.kind]
        assert f"This {limit.scope}'s limit of {limit.most}" in error.detail
        assert error.headers["Retry-After"] == "3"


def test_a_day_that_is_used_up_is_not_worth_asking_again_at_once():
    error = refusal(Standing(DAY, 990, 4000, 4000), 100)
    assert (error.kind, error.headers["x-should-retry"]) == ("insufficient_quota", "false")
    assert "100 are needed and 10 are left" in error.detail
