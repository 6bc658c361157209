import time
from collections import Counter

from services.gateway.pools.choosing import choose
from services.gateway.pools.configuration import PoolConfiguration
from services.gateway.pools.load import Load
from services.gateway.pools.replica import Replica


def replicas(*loads, weights=None, **options):
    configuration = PoolConfiguration.model_validate(
        {"name": "p", "replicas": [{"url": "http://a/v1"}], "health": {"failures": 1}, **options}
    )
    made = [
        Replica(configuration, f"http://r{number}/v1", weight, "", "")
        for number, weight in enumerate(weights or [1] * len(loads))
    ]
    now = time.monotonic()
    for replica, load in zip(made, loads, strict=True):
        if load is not None:
            replica.scraped(Load(running=load), now, replica.in_flight)
    return made


async def test_eight_at_once_are_shared_although_the_load_was_read_long_ago():
    for _ in range(50):
        made = replicas(0, 1)
        for _ in range(8):
            choose(made, time.monotonic()).begin(time.monotonic())
        assert sorted(replica.in_flight for replica in made) in ([4, 4], [3, 5])


async def test_equal_ones_are_chosen_at_random():
    made = replicas(None, None, None)
    counts = Counter(choose(made, 0).url for _ in range(600))
    assert len(counts) == 3
    assert min(counts.values()) > 100


async def test_the_load_that_a_server_tells_counts_and_is_corrected_by_what_has_ended_since():
    made = replicas(5, 3)
    assert choose(made, time.monotonic()) is made[1]
    for _ in range(3):
        made[0].begin(0)
    made[0].scraped(Load(running=5), time.monotonic(), 3)
    for _ in range(3):
        made[0].end()
    assert choose(made, time.monotonic()) is made[0]


async def test_the_count_never_falls_below_nothing():
    made = replicas(0)
    made[0].begin(0)
    made[0].scraped(Load(running=0), time.monotonic(), 1)
    made[0].end()
    assert made[0].score(time.monotonic()) == 1
    assert made[0].in_flight == 0


async def test_an_old_load_is_not_believed():
    made = replicas(50, None)
    now = time.monotonic()
    assert made[0].score(now) > made[1].score(now)
    assert made[0].score(now + 60) == made[1].score(now + 60)


async def test_the_heavier_gets_more_by_its_weight():
    made = replicas(None, None, weights=[1, 3])
    for _ in range(40):
        choose(made, 0).begin(0)
    assert [replica.in_flight for replica in made] == [10, 30]


async def test_a_full_cache_counts_a_little():
    made = replicas(None, None)
    now = time.monotonic()
    made[0].scraped(Load(kv_cache=0.9), now, 0)
    made[1].scraped(Load(kv_cache=0.2), now, 0)
    assert choose(made, now) is made[1]


async def test_who_knows_the_prompt_is_preferred_until_it_is_much_busier():
    made = replicas(None, None)
    for _ in range(4):
        made[0].begin(0)
    assert choose(made, 0, preferred=made[0].url) is made[0]
    for _ in range(4):
        made[0].begin(0)
    assert choose(made, 0, preferred=made[0].url) is made[1]


async def test_one_without_room_is_passed_over():
    made = replicas(None, None, max_in_flight=2)
    for _ in range(2):
        made[0].begin(0)
    assert choose(made, 0, preferred=made[0].url) is made[1]


async def test_one_that_is_down_or_out_is_not_asked_while_another_is_well():
    made = replicas(None, None, None)
    made[0].down = True
    made[1].may_be_ejected = lambda: True
    assert made[1].fail(0)
    assert {choose(made, 1).url for _ in range(20)} == {made[2].url}


async def test_where_none_is_well_the_first_attempt_goes_somewhere_and_the_second_does_not():
    made = replicas(None, None)
    for replica in made:
        replica.down = True
    first = choose(made, 0)
    assert first is not None
    assert choose(made, 0, tried={first.url}) is None


async def test_a_second_attempt_goes_elsewhere():
    made = replicas(None, None)
    assert choose(made, 0, tried={made[0].url}) is made[1]
    assert choose(made, 0, tried={replica.url for replica in made}) is None
    assert choose([], 0) is None
