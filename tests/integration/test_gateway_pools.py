"""Where requests go, and what happens when that goes wrong, with servers that fail on command."""

import asyncio
import contextlib
import ssl
import time
from collections import Counter

import httpx2
import pytest
import trustme
from prometheus_client import REGISTRY

from services.gateway.metering import Meter
from services.gateway.pools.connection import ConnectionLost
from services.gateway.pools.dispatch import Call, Dispatcher
from services.gateway.pools.origin import CannotConnect, Origin
from services.gateway.queueing import QueueLimits
from services.gateway.streams.asking import outgoing
from services.understudy.faults import Load, Script, faulty
from tests.integration.pools_app import QUIET, pool, relaying, until

OK = Script(text="Hola, hola.")


def code_of(response):
    return response.status_code, response.json()["error"]["code"]


def replicas_of(door, name="main"):
    return door.pools.pools[name].replicas


def idle(door):
    """Nothing is at any replica, and no place is taken."""
    return all(
        not one.queue.running and not one.queue.waiting and not any(replica.in_flight for replica in one.replicas)
        for one in door.pools.pools.values()
    )


def posts(server):
    return [record for record in server.requests if record.method == "POST"]


async def test_an_answer_comes_with_every_field_and_byte():
    script = Script(body='{ "odd":1.0,  "choices": [] }', content_type="application/json", headers={"x-vllm": "1"})
    async with faulty(script) as server, relaying(pool(server)) as door:
        response = await door.ask(unknown={"z": 1})
    assert response.content == b'{ "odd":1.0,  "choices": [] }'
    assert response.headers["x-vllm"] == "1"
    assert server.requests[-1].asked == door.body(unknown={"z": 1})


async def test_a_stream_comes_through_and_leaves_nothing_behind():
    async with faulty(OK) as server, relaying(pool(server)) as door:
        assert await door.stream() == ("Hola, hola.", None, True)
        await until(lambda: idle(door))
    assert door.meters[-1].dispatched
    assert (door.routings[-1].pool, door.routings[-1].attempts) == ("main", 1)


@pytest.mark.parametrize("path", ["completions", "embeddings", "rerank", "responses"])
async def test_other_endpoints_pass_through_by_their_path(path):
    script = Script(body='{"x": 1}', content_type="application/json")
    async with faulty(script) as server, relaying(pool(server)) as door:
        response = await door.ask(path=path, odd=[1.0])
    assert response.content == b'{"x": 1}'
    assert server.requests[-1].path == f"/v1/{path}"
    assert server.requests[-1].asked["odd"] == [1.0]


async def test_the_server_sees_the_pools_key_and_nothing_that_only_we_may_say():
    claims = {
        "x-tenant-id": "b", "x-priority": "high", "cookie": "c", "x-forwarded-for": "1.2.3.4", "connection": "x-drop",
        "x-drop": "1", "x-kept": "1", "authorization": "Bearer client", "x-session-id": "s",
    }  # fmt: skip
    async with faulty(OK) as server, relaying(pool(server), keys={"main": "pool-key"}) as door:
        await door.ask(headers=claims)
        seen = server.requests[-1].headers
    assert seen["authorization"] == "Bearer pool-key"
    assert (seen["x-kept"], seen["accept-encoding"], seen["x-request-id"]) == ("1", "identity", "request-1")
    assert not {"x-tenant-id", "x-priority", "cookie", "x-forwarded-for", "x-drop", "x-session-id"} & set(seen)


async def test_a_server_that_refuses_our_key_is_not_the_clients_fault():
    async with faulty(Script(status=401)) as server, relaying(pool(server)) as door:
        assert code_of(await door.ask()) == (503, "dependency_failed")


# Another attempt, elsewhere


async def two(door):
    """Which of the two replicas gets the next request: the other one is made busy."""
    first, second = replicas_of(door)
    second.begin(0)
    return first, second


@pytest.mark.parametrize(
    "bad",
    [
        Script(before="close"),
        Script(before="reset"),
        Script(status=502),
        Script(status=503),
        Script(status=504),
        Script(status=529),
        Script(status=429, headers={"Retry-After": "7"}),
        Script(body="<html>Bad gateway</html>", content_type="text/html"),
        Script(status=503, body="<html>", content_type="text/html"),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
async def test_another_replica_answers_what_one_could_not(bad, streamed):
    async with faulty(bad) as first, faulty(OK) as second, relaying(pool(first, second)) as door:
        await two(door)
        if streamed:
            assert await door.stream() == ("Hola, hola.", None, True)
        else:
            assert (await door.ask()).status_code == 200
        # A used connection that died is not worth an attempt.
        assert (len(posts(first)), len(posts(second))) in [(1, 1), (2, 1)]
        assert door.routings[-1].attempts == 2


@pytest.mark.parametrize(
    "bad",
    [
        Script(error={"error": {"code": 429, "message": "busy"}}, after_chunks=0, role_chunk=False),
        Script(error={"error": {"code": 500, "message": "oh"}}, after_chunks=0),
        Script(ending="close", after_chunks=0, role_chunk=False),
        Script(ending="close", after_chunks=0),
        Script(ending="reset", after_chunks=0),
        Script(ending="half_chunk", after_chunks=0),
    ],
)
async def test_a_stream_that_fails_before_its_first_content_starts_again_elsewhere(bad):
    async with faulty(bad) as first, faulty(OK) as second, relaying(pool(first, second)) as door:
        await two(door)
        response = await door.ask(stream=True)
    assert response.text.count('"role"') == 1
    assert response.text.count("[DONE]") == 1
    assert '"error"' not in response.text
    assert (len(posts(first)), len(posts(second))) == (1, 1)


@pytest.mark.parametrize("ending", ["close", "reset", "half"])
async def test_a_stream_that_fails_after_its_first_content_is_not_started_again(ending):
    bad = Script(text="uno dos tres cuatro cinco", ending=ending, after_chunks=3)
    async with faulty(bad) as first, faulty(OK) as second, relaying(pool(first, second)) as door:
        await two(door)
        text, error, done = await door.stream()
    assert "Hola" not in text
    assert (error["code"], done) == ("dependency_failed", False)
    assert (len(posts(first)), len(posts(second))) == (1, 0)


@pytest.mark.parametrize("status", [400, 404, 413, 422, 500])
async def test_an_answer_about_the_request_itself_goes_to_the_client_as_it_is(status):
    async with faulty(Script(status=status)) as first, faulty(OK) as second, relaying(pool(first, second)) as door:
        await two(door)
        for streamed in (False, True):
            response = await door.ask(stream=streamed)
            assert response.status_code == status
            assert response.json()["error"]
        assert not posts(second)


async def test_the_model_error_in_a_stream_that_begins_with_it_has_its_own_status():
    bad = Script(error={"error": {"code": 400, "message": "too long", "type": "BadRequestError"}}, after_chunks=0)
    async with faulty(bad) as first, faulty(OK) as second, relaying(pool(first, second)) as door:
        await two(door)
        response = await door.ask(stream=True)
        assert response.status_code == 400
        assert not posts(second)


async def test_a_server_that_is_not_there_is_replaced_by_one_that_is():
    async with faulty(OK) as gone, faulty(OK) as second:
        await gone.stop()
        async with relaying(pool(gone, second)) as door:
            await two(door)
            assert (await door.ask()).status_code == 200


# Where all are busy or gone


@pytest.mark.parametrize(("status", "shown"), [(429, 429), (503, 503), (529, 503)])
async def test_where_all_are_busy_the_client_learns_when_to_come_back(status, shown):
    busy = Script(status=status, headers={"Retry-After": "7", "x-ratelimit-limit-requests": "1", "RateLimit": "x"})
    later = busy.model_copy(update={"headers": {"Retry-After": "30"}})
    async with faulty(later) as first, faulty(busy) as second, relaying(pool(first, second)) as door:
        for streamed in (False, True):
            response = await door.ask(stream=streamed)
            assert code_of(response) == (shown, "upstream_overloaded")
            assert response.headers["retry-after"] == "7"
            assert not [name for name in response.headers if "ratelimit" in name]


async def test_a_pool_that_is_gone_says_so():
    async with faulty(OK) as server:
        await server.stop()
        async with relaying(pool(server)) as door:
            assert code_of(await door.ask()) == (503, "dependency_failed")
            assert idle(door)


@pytest.mark.parametrize(("status", "code"), [(502, "upstream_failed"), (504, "upstream_failed")])
async def test_an_error_page_becomes_an_error_object(status, code):
    page = Script(status=status, body="<html>nginx</html>", content_type="text/html")
    async with faulty(page) as server, relaying(pool(server)) as door:
        response = await door.ask()
    assert code_of(response) == (status, code)
    assert "nginx" not in response.text


async def test_a_server_that_is_down_is_not_tried_again_and_again():
    health = {**QUIET["health"], "failures": 100}
    async with faulty(Script(status=503)) as first, faulty(Script(status=503)) as second:
        async with relaying(pool(first, second, health=health, retries={"most": 2, "budget": 0.2})) as door:
            for _ in range(50):
                await door.ask()
            retries = len(posts(first)) + len(posts(second)) - 50
    assert 10 <= retries <= 20


async def test_another_model_answers_where_the_operator_says_so_and_the_caller_may():
    async with faulty(Script(status=503)) as large, faulty(OK) as small:
        pools = (
            pool(large, name="large", models=["big-1"], fallback="mini-1"),
            pool(small, name="small", models=["mini-1"]),
        )
        async with relaying(*pools) as door:
            assert (await door.ask("big-1")).status_code == 200
            assert posts(small)[-1].asked == door.body("mini-1")
            assert door.routings[-1].model == "mini-1"
            assert code_of(await door.ask("big-1", headers={"models": "big-*"})) == (503, "upstream_overloaded")
            assert idle(door)


async def test_a_fallback_may_be_an_alias():
    async with faulty(Script(status=503)) as busy, faulty(OK) as other:
        first = pool(busy, name="a", models=["big-1"], fallback="chat")
        async with relaying(first, pool(other, name="b", aliases={"chat": "mini-1"})) as door:
            assert await door.stream("big-1") == ("Hola, hola.", None, True)
            assert other.requests[-1].asked["model"] == "mini-1"


async def test_a_server_that_lists_our_names_does_not_make_them_appear_twice():
    async with faulty(OK) as server:
        server.models = ("sabueso", "chat", "mini-1")
        async with relaying(pool(server, models=[], aliases={"chat": "mini-1"})) as door:
            refused = await door.ask("unknown")
            assert refused.json()["error"]["message"].endswith("You may call: sabueso, mini-1, chat.")


@pytest.mark.parametrize("status", [204, 205, 206])
async def test_a_success_without_an_answer_is_a_failure(status):
    async with faulty(Script(status=status)) as server, relaying(pool(server)) as door:
        for stream in (True, False):
            assert code_of(await door.ask(stream=stream)) == (502, "upstream_failed")


async def test_fallbacks_that_name_each_other_end():
    async with faulty(Script(status=503)) as one, faulty(Script(status=503)) as other:
        pools = (
            pool(one, name="a", models=["big-1"], fallback="mini-1"),
            pool(other, name="b", models=["mini-1"], fallback="big-1"),
        )
        async with relaying(*pools) as door:
            assert code_of(await door.ask("big-1")) == (503, "upstream_overloaded")
            assert (len(posts(one)), len(posts(other))) == (1, 1)


# Names


async def test_an_alias_is_resolved_before_the_caller_is_checked_and_only_the_name_changes():
    configuration = pool(
        *[], name="main", replicas=[{"url": "http://127.0.0.1:9/v1"}], aliases={"chat": "mini-1", "quick": "chat"}
    )
    async with faulty(OK) as server:
        configuration = pool(server, aliases=configuration.aliases)
        async with relaying(configuration) as door:
            content = (
                b'{ "model" : "quick", "messages":[{"role":"user","content":"\\"model\\": \\"quick\\""}], "z":1.0 }'
            )
            await door.http.post("/v1/chat/completions", content=content)
            assert posts(server)[-1].body == content.replace(b' "quick", "mess', b'"mini-1", "mess')
            refused = await door.ask("quick", headers={"models": "quick chat"})
            assert code_of(refused) == (404, "model_not_found")
            assert (await door.ask("quick", headers={"models": "mini-*"})).status_code == 200
            assert door.pools.resolve("quick") == "mini-1"
            assert door.meters[-1].model == "mini-1"


async def test_servers_are_asked_what_they_serve():
    async with faulty(OK) as first, faulty(OK) as second:
        first.models, second.models = ("mini-1", "only-1"), ("mini-1", "only-2")
        async with relaying(pool(first, second, models=[], aliases={"chat": "mini-1", "lost": "nowhere"})) as door:
            assert await door.pools.serves("only-2")
            assert not await door.pools.serves("only-3")
            refused = (await door.ask("only-3")).json()["error"]
            assert refused["message"].endswith("You may call: sabueso, mini-1, only-1, only-2, chat.")
            for _ in range(4):
                assert (await door.ask("only-2")).status_code == 200
            assert (len(posts(first)), len(posts(second))) == (0, 4)


async def test_a_model_that_is_new_is_found_within_seconds():
    async with faulty(OK) as server, relaying(pool(server, models=[])) as door:
        assert not await door.pools.serves("new-1")
        server.models = ("mini-1", "new-1")
        async with asyncio.timeout(30):
            while not await door.pools.serves("new-1"):
                await asyncio.sleep(0.1)


async def test_two_pools_share_a_model_that_both_serve():
    async with faulty(OK) as one, faulty(OK) as other:
        async with relaying(pool(one, name="a"), pool(other, name="b")) as door:
            await asyncio.gather(*(door.ask() for _ in range(40)))
            assert len(posts(one)) + len(posts(other)) == 40
            assert min(len(posts(one)), len(posts(other))) >= 5


# Time limits


async def test_a_stream_that_goes_on_is_not_ended_by_the_limit_for_whole_answers():
    limits = {"total_seconds": 0.3, "first_token_seconds": 30, "idle_seconds": 30}
    slow = Script(text="uno dos tres cuatro cinco seis", chunk_delay_seconds=0.2)
    async with faulty(slow) as server, relaying(pool(server, timeouts=limits)) as door:
        text, error, done = await door.stream()
    assert (text, error, done) == (slow.text, None, True)


async def test_a_whole_answer_that_takes_too_long_ends_with_504():
    limits = {"total_seconds": 0.3, "first_token_seconds": 30, "idle_seconds": 30}
    async with faulty(Script(before="silence")) as server, relaying(pool(server, timeouts=limits)) as door:
        assert code_of(await door.ask()) == (504, "deadline_exceeded")
        await asyncio.wait_for(server.requests[-1].closed.wait(), 20)
        assert idle(door)


@pytest.mark.parametrize("silent", [Script(before="silence"), Script(hold_after=0), Script(hold_headers=True)])
async def test_a_stream_that_does_not_begin_ends_with_504(silent):
    limits = {"first_token_seconds": 0.3, "idle_seconds": 30, "total_seconds": 30}
    async with faulty(silent) as server, relaying(pool(server, timeouts=limits)) as door:
        assert code_of(await door.ask(stream=True)) == (504, "deadline_exceeded")
        await asyncio.wait_for(server.requests[-1].closed.wait(), 20)
        assert idle(door)


async def test_a_stream_that_falls_silent_ends_with_an_error():
    limits = {"first_token_seconds": 30, "idle_seconds": 0.3, "total_seconds": 30}
    async with faulty(Script(ending="hang", after_chunks=2)) as server, relaying(pool(server, timeouts=limits)) as door:
        _, error, done = await door.stream()
        assert (error["code"], done) == ("deadline_exceeded", False)
        await asyncio.wait_for(server.requests[-1].closed.wait(), 20)
        await until(lambda: idle(door))


# Health


async def test_a_hung_server_does_not_hold_up_the_others_and_is_left_alone_soon():
    limits = {"total_seconds": 3, "first_token_seconds": 3}
    health = {**QUIET["health"], "failures": 2, "ejection_seconds": 300}
    async with faulty(Script(before="silence")) as hung, faulty(OK) as well:
        async with relaying(pool(hung, well, timeouts=limits, health=health)) as door:
            results = await asyncio.gather(*(door.ask() for _ in range(20)))
            counts = Counter(response.status_code for response in results)
            assert set(counts) == {200, 504}
            assert counts[504] == len(posts(hung))
            for _ in range(20):
                assert (await door.ask()).status_code == 200
            assert len(posts(hung)) == counts[504]
            assert door.pools.states() == {"main": "1 of 2 replicas"}


async def test_an_ejected_server_comes_back_by_one_trial():
    health = {**QUIET["health"], "failures": 2, "ejection_seconds": 0.5}
    async with faulty(Script(status=500)) as bad, faulty(OK) as well:
        async with relaying(pool(bad, well, health=health)) as door:
            first, second = await two(door)
            for _ in range(2):
                await door.ask()
            assert first.outlier.ejections == 1
            bad.script = OK
            await until(lambda: not first.outlier.ejected(time.monotonic()))
            await door.ask()
            assert len(posts(bad)) == 3
            assert not first.outlier.ejections
            second.end()


async def test_no_more_than_half_of_the_servers_are_left_alone():
    health = {**QUIET["health"], "failures": 1, "ejection_seconds": 300}
    async with faulty(Script(status=500)) as a, faulty(Script(status=500)) as b, faulty(Script(status=500)) as c:
        async with relaying(pool(a, b, c, health=health)) as door:
            for _ in range(12):
                await door.ask()
            assert sum(bool(replica.outlier.ejections) for replica in replicas_of(door)) == 1


async def test_a_server_whose_health_page_fails_is_not_asked_until_it_is_well():
    health = {"interval_seconds": 0.05, "load_interval_seconds": 0.05, "failures": 2}
    async with faulty(OK) as ill, faulty(OK) as well:
        ill.health_status = 503
        async with relaying(pool(ill, well, health=health)) as door:
            await until(lambda: replicas_of(door)[0].down)
            for _ in range(5):
                assert (await door.ask()).status_code == 200
            assert not posts(ill)
            ill.health_status = 200
            await until(lambda: not replicas_of(door)[0].down)


async def test_a_server_that_tells_its_load_gets_less_while_it_is_busy():
    health = {"interval_seconds": 300, "load_interval_seconds": 0.05}
    async with faulty(OK) as busy, faulty(OK) as free:
        busy.load, free.load = Load(running=20, waiting=5), Load(running=1)
        async with relaying(pool(busy, free, health=health)) as door:
            await until(lambda: all(replica.load is not None for replica in replicas_of(door)))
            for _ in range(5):
                await door.ask()
            assert (len(posts(busy)), len(posts(free))) == (0, 5)


async def test_a_server_that_drowns_gets_fewer_requests_at_once():
    health = {"interval_seconds": 300, "load_interval_seconds": 0.05}
    async with faulty(OK) as server:
        server.load = Load(running=50, waiting=40)
        async with relaying(pool(server, health=health, max_in_flight=64)) as door:
            await until(lambda: door.pools.pools["main"].capacity() == 4)
            server.load = Load()
            await until(lambda: door.pools.pools["main"].capacity() == 64)


# Connections


async def test_a_connection_that_the_server_closes_at_the_moment_of_its_use_costs_no_request():
    async with faulty(OK) as server, relaying(pool(server)) as door:
        server.keep_alive_seconds = 0.03

        async def pairs(count):
            for number in range(count):
                assert (await door.ask()).status_code == 200
                await asyncio.sleep(0.027 + 0.0002 * (number % 30))

        await asyncio.gather(*(pairs(30) for _ in range(4)))
        # Each answer belongs to one request that the server has heard.
        assert len(posts(server)) >= 120


@pytest.mark.slow
async def test_pairs_of_requests_around_the_servers_keep_alive_time_never_fail():
    async with faulty(OK) as server, relaying(pool(server, max_in_flight=1000)) as door:
        server.keep_alive_seconds = 1.0

        async def pair(number):
            await asyncio.sleep(number * 0.01)
            assert (await door.ask()).status_code == 200
            await asyncio.sleep(0.9 + 0.2 * number / 500)
            assert (await door.ask()).status_code == 200

        await asyncio.gather(*(pair(number) for number in range(500)))


async def test_a_request_that_died_on_a_fresh_connection_is_not_sent_to_the_same_server_again():
    async with faulty(Script(before="close")) as server:
        origin = Origin(f"{server.url}/v1", connect_seconds=20)
        with pytest.raises(ConnectionLost):
            await origin.post("/v1/chat/completions", [], b"{}")
        assert len(posts(server)) == 1


async def test_a_request_that_died_on_a_used_connection_is_sent_once_more():
    async with faulty(OK) as server:
        origin = Origin(f"{server.url}/v1", connect_seconds=20)

        async def post():
            reply = await origin.post("/v1/chat/completions", [], b'{"model": "mini-1"}')
            while await reply.read():
                pass
            return reply.status

        assert await post() == 200
        server.queue(Script(before="close"))
        assert await post() == 200
        server.queue(Script(before="close"), Script(before="close"))
        with pytest.raises(ConnectionLost):
            await post()
        assert len(posts(server)) == 5
        origin.drop()


async def test_a_server_that_cannot_be_reached_is_told_from_one_that_breaks_off():
    async with faulty(OK) as server:
        await server.stop()
        with pytest.raises(CannotConnect):
            await Origin(f"{server.url}/v1", connect_seconds=20).post("/v1/chat/completions", [], b"{}")


async def test_no_header_can_hold_another():
    async with faulty(OK) as server:
        origin = Origin(f"{server.url}/v1", connect_seconds=20, key="k")
        headers = [(b"x-good", b"1"), (b"x-bad", b"1\r\nx-forged: 1"), (b"x-worse", b"1\nx-forged: 1")]
        reply = await origin.post("/v1/chat/completions", headers, b"{}")
        reply.abandon()
        seen = posts(server)[0].headers
        assert seen["x-good"] == "1"
        assert not {"x-bad", "x-worse", "x-forged"} & set(seen)


async def test_a_replica_with_a_certificate_is_known_by_the_pools_name():
    authority = trustme.CA()
    serving_tls, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("models.test").configure_cert(serving_tls)
    authority.configure_trust(trusting)

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=serving_tls)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with server:
        origin = Origin(url, connect_seconds=20, server_name="models.test", tls=trusting)
        assert await origin.get("/health", 20) == (200, b"ok")
        for stranger in (
            Origin(url, connect_seconds=20, tls=trusting),
            Origin(url, connect_seconds=20, server_name="models.test"),
        ):
            with pytest.raises(CannotConnect):
                await stranger.get("/health", 20)
        origin.drop()


async def test_connections_are_used_again():
    async with faulty(OK) as server, relaying(pool(server)) as door:
        for _ in range(20):
            await door.ask()
            await door.stream()
        assert len(server._opened) <= 2


# Those who leave


@pytest.mark.parametrize(
    "script",
    [
        Script(before="silence"),
        Script(hold_headers=True),
        Script(hold_after=0),
        Script(hold_after=2),
        Script(ending="endless"),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_client_who_leaves_frees_the_server_in_every_phase(script, streamed):
    async with faulty(script) as server, relaying(pool(server)) as door:
        asking = asyncio.create_task(door.ask(stream=streamed))
        record = await asyncio.wait_for(server.arrived(1), 30)
        if streamed and script.hold_after == 2:
            await until(lambda: record.sent_events == 2)
        asking.cancel()
        if streamed or script.before == "silence" or script.hold_headers:
            await asyncio.wait_for(record.closed.wait(), 20)
        await until(lambda: idle(door))


async def test_hundreds_of_streams_that_are_left_leave_no_count_behind():
    async with (
        faulty(Script(ending="hang", after_chunks=1)) as server,
        relaying(pool(server, max_in_flight=50)) as door,
    ):

        async def leave():
            async with door.http.stream("POST", "/v1/chat/completions", json=door.body(stream=True)) as response:
                await anext(response.aiter_raw())

        for _ in range(10):
            await asyncio.gather(*(leave() for _ in range(30)))
        await until(lambda: idle(door))


# A second replica for those who wait too long


async def test_a_silent_replica_is_overtaken_by_a_second_one_where_that_is_wanted():
    async with faulty(Script(before="silence")) as slow, faulty(OK) as quick:
        async with relaying(pool(slow, quick, hedge_after_ms=50)) as door:
            await two(door)
            before = REGISTRY.get_sample_value("sabueso_gateway_hedges_total", {"pool": "main"}) or 0
            assert await door.stream() == ("Hola, hola.", None, True)
            await asyncio.wait_for(posts(slow)[0].closed.wait(), 20)
            assert REGISTRY.get_sample_value("sabueso_gateway_hedges_total", {"pool": "main"}) == before + 1
            replicas_of(door)[1].end()
            await until(lambda: idle(door))


async def test_nobody_is_asked_twice_where_the_first_one_answers():
    async with faulty(OK) as first, faulty(OK) as second:
        async with relaying(pool(first, second, hedge_after_ms=60_000)) as door:
            for _ in range(10):
                assert (await door.ask()).status_code == 200
            assert len(posts(first)) + len(posts(second)) == 10


async def test_the_client_who_leaves_ends_both():
    async with faulty(Script(before="silence")) as one, faulty(Script(before="silence")) as other:
        async with relaying(pool(one, other, hedge_after_ms=20)) as door:
            asking = asyncio.create_task(door.ask())
            await asyncio.wait_for(asyncio.gather(one.arrived(1), other.arrived(1)), 30)
            asking.cancel()
            await asyncio.wait_for(asyncio.gather(posts(one)[0].closed.wait(), posts(other)[0].closed.wait()), 20)
            await until(lambda: idle(door))


# The queue


async def test_requests_beyond_what_the_pool_takes_wait_and_all_are_answered():
    async with faulty(OK) as server, relaying(pool(server, max_in_flight=2)) as door:
        most = 0

        async def ask():
            nonlocal most
            response = await door.ask()
            most = max(most, server.running)
            return response.status_code

        assert set(await asyncio.gather(*(ask() for _ in range(30)))) == {200}
        assert most <= 2
        assert sum(routing.queue_seconds > 0 for routing in door.routings) > 10


async def test_a_full_queue_refuses_the_tenant_or_everybody():
    limits = QueueLimits(most_waiting=3, most_waiting_per_tenant=2)
    async with faulty(Script(hold_headers=True)) as server:
        async with relaying(pool(server, max_in_flight=1), limits=limits) as door:
            queue = door.pools.pools["main"].queue
            waiting = [asyncio.create_task(door.ask())]
            await asyncio.wait_for(server.arrived(1), 30)
            waiting += [asyncio.create_task(door.ask(headers={"tenant": "a"})) for _ in range(2)]
            await until(lambda: queue.waiting == 2)
            refused = await door.ask(headers={"tenant": "a"})
            assert code_of(refused) == (429, "queue_full")
            assert int(refused.headers["retry-after"]) >= 1
            waiting.append(asyncio.create_task(door.ask(headers={"tenant": "b", "band": "low"})))
            await until(lambda: queue.waiting == 3)
            low = waiting.pop()
            waiting.append(asyncio.create_task(door.ask(headers={"tenant": "c"})))
            assert code_of(await low) == (503, "overloaded")
            refused = await door.ask(headers={"tenant": "d"}, stream=True)
            assert code_of(refused) == (503, "overloaded")
            server.go_on.set()
            results = await asyncio.gather(*waiting)
            assert {response.status_code for response in results} == {200}


async def test_a_client_who_leaves_the_queue_is_never_sent():
    async with faulty(Script(hold_headers=True)) as server, relaying(pool(server, max_in_flight=1)) as door:
        queue = door.pools.pools["main"].queue
        first = asyncio.create_task(door.ask())
        await asyncio.wait_for(server.arrived(1), 30)
        second = asyncio.create_task(door.ask())
        await until(lambda: queue.waiting == 1)
        second.cancel()
        await until(lambda: queue.waiting == 0)
        server.go_on.set()
        assert (await first).status_code == 200
        await until(lambda: idle(door))
        assert len(posts(server)) == 1


async def test_turns_of_running_answers_go_before_new_requests():
    async with faulty(Script(hold_headers=True)) as server, relaying(pool(server, max_in_flight=1)) as door:
        queue = door.pools.pools["main"].queue
        asking = [asyncio.create_task(door.ask(n=0))]
        await asyncio.wait_for(server.arrived(1), 30)
        for number, headers in [(1, {}), (2, {}), (3, {"internal": "1"})]:
            asking.append(asyncio.create_task(door.ask(n=number, headers=headers)))
            await until(lambda expected=number: queue.waiting == expected)
        server.go_on.set()
        await asyncio.gather(*asking)
        assert [record.asked["n"] for record in posts(server)] == [0, 3, 1, 2]


# Where a prompt was read before


async def test_prompts_that_begin_alike_meet_the_same_replica():
    async with faulty(OK) as one, faulty(OK) as other, relaying(pool(one, other, affinity="prefix")) as door:
        for number in range(8):
            topic = f"Sobre el tema {number}. " * 200
            for _ in range(3):
                messages = [{"role": "user", "content": topic}]
                await door.http.post("/v1/chat/completions", json={"model": "mini-1", "messages": messages})
        for server in (one, other):
            topics = Counter(record.asked["messages"][0]["content"][:20] for record in posts(server))
            assert set(topics.values()) <= {3}


async def test_a_session_meets_the_same_replica_and_no_server_sees_its_name():
    async with faulty(OK) as one, faulty(OK) as other, relaying(pool(one, other, affinity="session")) as door:
        places = []
        for session in range(30):
            for _ in range(2):
                await door.ask(headers={"x-session-id": f"session-{session}"})
            places.append({routing.replica for routing in door.routings[-2:]})
        assert all(len(place) == 1 for place in places)
        assert len(set.union(*places)) == 2
        assert not [record for record in [*posts(one), *posts(other)] if "x-session-id" in record.headers]


async def test_a_busy_replica_is_passed_over_whatever_it_knows():
    async with faulty(OK) as one, faulty(OK) as other, relaying(pool(one, other, affinity="session")) as door:
        await door.ask(headers={"x-session-id": "s"})
        owner = next(replica for replica in replicas_of(door) if replica.name == door.routings[-1].replica)
        for _ in range(20):
            owner.begin(0)
        await door.ask(headers={"x-session-id": "s"})
        assert door.routings[-1].replica != owner.name


# What is measured


async def test_labels_are_names_of_the_configuration_whatever_is_asked():
    async with faulty(OK) as server, relaying(pool(server)) as door:
        await door.ask()

        def series():
            return sum(
                len(list(family.samples))
                for family in REGISTRY.collect()
                if family.name.startswith(("sabueso_gateway_replica", "sabueso_gateway_queue", "sabueso_gateway_att"))
            )

        before = series()
        for number in range(50):
            await door.ask(f"model-{number}", headers={"tenant": f"t{number}", "x-session-id": str(number)})
        assert series() == before


async def test_a_client_that_speaks_no_http_leaves_the_pool_alone():
    async with faulty(OK) as server, relaying(pool(server)) as door:
        with pytest.raises((httpx2.HTTPError, ValueError)):
            await door.http.post("/v1/chat/completions", content=b"{", headers={"x\n": "y"})
        assert not posts(server)


async def test_who_leaves_just_when_a_hedge_has_won_leaves_nothing_behind():
    asked = {"model": "mini-1", "stream": True}
    sent = outgoing("/v1/chat/completions", b'{"model":"mini-1","stream":true}', asked)
    async with faulty(Script(before="silence")) as silent, faulty(Script(hold_headers=True)) as other:
        async with relaying(pool(silent, other, hedge_after_ms=1)) as door:
            dispatcher = Dispatcher(lambda: list(door.pools.pools.values()))
            for turns in range(40):  # one of them is the moment
                other.go_on.clear()
                arrived = len(other.requests)
                call = Call("mini-1", sent, [], asked, "a", Meter(), lambda _: True)
                opening = asyncio.create_task(dispatcher.open(call))
                await asyncio.wait_for(other.arrived(arrived + 1), 30)
                other.go_on.set()
                for _ in range(turns):
                    await asyncio.sleep(0)
                opening.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await (await opening).close("abandoned")
                await until(lambda: idle(door))
