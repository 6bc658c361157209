"""Pools that change while they are used: their file, the addresses behind a name, the keys."""

import asyncio
import json
import os
from contextlib import asynccontextmanager

import dns.asyncresolver
import dns.message
import dns.rcode
import dns.rrset
import pytest
import yaml

from services.gateway.pools.configuration import BadPoolsFile, PoolsFile
from services.gateway.pools.discovery import DnsNames, FixedNames
from services.gateway.pools.pool import pool_at
from services.gateway.pools.routing import ModelPools, pools_of, read
from services.understudy.faults import FaultyServer, Script, faulty
from tests.integration.pools_app import QUIET, App, pool, relaying, served_by, until

OK = Script(text="Hola, hola.")


def write(path, *configurations, **more):
    """Replaces the file in one step, as `kubectl` and editors do."""
    content = {"pools": [json.loads(one.model_dump_json(exclude_defaults=True)) for one in configurations], **more}
    replaced_by(path, yaml.safe_dump(content))


def replaced_by(path, text):
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    os.replace(fresh, path)


@asynccontextmanager
async def following(path, names=None):
    pools = ModelPools(names, look_seconds=0.05)
    try:
        await pools.apply(*read(path))
        pools.follow(path)
        async with served_by(App(pools)) as door:
            yield door
    finally:
        await pools.close()


def urls(door, name="main"):
    return [replica.url for replica in door.pools.pools[name].replicas]


async def test_a_changed_file_is_in_force_within_seconds_and_streams_go_on(tmp_path):
    path = tmp_path / "pools.yaml"
    async with faulty(Script(text="uno dos tres", hold_after=1)) as old, faulty(OK) as new:
        write(path, pool(old))
        async with following(path) as door:
            running = asyncio.create_task(door.stream())
            await asyncio.wait_for(old.arrived(1), 30)
            write(path, pool(new, aliases={"chat": "mini-1"}, max_in_flight=3))
            await until(lambda: urls(door) == [f"{new.url}/v1"])
            assert await door.stream("chat") == ("Hola, hola.", None, True)
            assert door.pools.pools["main"].capacity() == 3
            old.go_on.set()
            assert await running == ("uno dos tres", None, True)


async def test_a_wrong_file_leaves_the_last_good_one_in_force_and_is_counted(tmp_path, caplog):
    path = tmp_path / "pools.yaml"
    async with faulty(OK) as server:
        write(path, pool(server))
        async with following(path) as door:
            write(path, pool(server), typo=1)
            await until(lambda: door.pools.failed_reloads == 1)
            assert (await door.ask()).status_code == 200
            assert "pools.yaml: typo: Extra inputs are not permitted" in str([r.__dict__ for r in caplog.records])
            os.unlink(path)
            await asyncio.sleep(0.2)
            write(path, pool(server, max_in_flight=7))
            await until(lambda: door.pools.pools["main"].capacity() == 7)
            assert door.pools.failed_reloads == 1


async def test_what_is_known_of_a_server_survives_a_change_elsewhere(tmp_path):
    path = tmp_path / "pools.yaml"
    async with faulty(OK) as one, faulty(OK) as other:
        write(path, pool(one))
        async with following(path) as door:
            kept = door.pools.pools["main"].replicas[0]
            write(path, pool(one, other), pool(other, name="second"))
            await until(lambda: len(urls(door)) == 2)
            assert door.pools.pools["main"].replicas[0] is kept
            write(path, pool(other, name="second"))
            await until(lambda: set(door.pools.pools) == {"second"})
            assert (await door.ask()).status_code == 200


async def test_a_changed_key_is_used_without_a_change_of_the_file(tmp_path):
    path, key = tmp_path / "pools.yaml", tmp_path / "key"
    key.write_text("first-key")
    async with faulty(OK) as server:
        write(path, pool(server, api_key_file=str(key)))
        async with following(path) as door:
            await door.ask()
            key.write_text("second-key")
            pools = door.pools.pools["main"]
            before = pools.replicas[0]
            await until(lambda: pools.replicas and pools.replicas[0] is not before)
            await door.ask()
        sent = [record.headers["authorization"] for record in server.requests if record.method == "POST"]
        assert sent == ["Bearer first-key", "Bearer second-key"]


async def test_a_file_that_is_wrong_at_the_start_is_refused(tmp_path):
    path = tmp_path / "pools.yaml"
    path.write_text("pools: 1")
    with pytest.raises(BadPoolsFile):
        async with pools_of(path):
            pass


async def test_one_url_is_a_pool_that_asks_its_server_what_it_serves():
    async with faulty(OK) as server, pools_of(pool_at(f"{server.url}/v1"), "pool-key") as pools:
        async with served_by(App(pools)) as door:
            assert await door.stream() == ("Hola, hola.", None, True)
            assert pools.states() == {"default": "ok"}


@pytest.mark.parametrize(
    "text",
    [
        "pools: [{name: a, models: [2024-13-45]}]",
        f"pools: {'1' * 5000}",
        "[" * 5000,
        'pools: [{name: a, replicas: [{url: "http://a/v1"}], api_key_file: "a\\0b"}]',
    ],
    ids=["no date", "long number", "deep", "no path"],
)
async def test_no_text_of_the_file_ends_the_watch_over_it(tmp_path, text):
    path = tmp_path / "pools.yaml"
    async with faulty(OK) as server:
        write(path, pool(server))
        async with following(path) as door:
            replaced_by(path, text)
            await until(lambda: door.pools.failed_reloads == 1)
            write(path, pool(server, max_in_flight=7))
            await until(lambda: door.pools.pools["main"].capacity() == 7)


class SlowNames(FixedNames):
    """Answers when it is let."""

    def __init__(self, **known):
        super().__init__(**known)
        self.asked, self.go_on = 0, asyncio.Event()

    async def addresses(self, name):
        self.asked += 1
        await self.go_on.wait()
        return await super().addresses(name)


async def test_a_change_while_the_last_one_is_put_in_force_is_not_lost(tmp_path):
    path, names = tmp_path / "pools.yaml", SlowNames(service=["127.0.0.1"])
    async with faulty(OK) as server:
        named = pool(name="named", replicas=[], dns="service:8000", models=["big-1"], **QUIET)
        write(path, pool(server))
        async with following(path, names) as door:
            write(path, pool(server, max_in_flight=5), named)
            await until(lambda: names.asked == 1)
            write(path, pool(server, max_in_flight=6), named)
            names.go_on.set()
            await until(lambda: door.pools.pools["main"].capacity() == 6)


async def test_who_waits_for_a_pool_that_is_taken_out_goes_to_another_at_once(tmp_path):
    path = tmp_path / "pools.yaml"
    async with faulty(Script(text="uno dos", hold_after=1)) as old, faulty(OK) as new:
        write(path, pool(old, max_in_flight=1))
        async with following(path) as door:
            gone = door.pools.pools["main"]
            running = asyncio.create_task(door.stream())
            await asyncio.wait_for(old.arrived(1), 30)
            waiting = [asyncio.create_task(door.stream()) for _ in range(3)]
            await until(lambda: gone.queue.waiting == 3)
            write(path, pool(new, name="second"))
            # The running one still holds its place: nobody else would call them.
            assert await asyncio.wait_for(asyncio.gather(*waiting), 20) == [("Hola, hola.", None, True)] * 3
            old.go_on.set()
            assert await running == ("uno dos", None, True)
            assert (gone.queue.running, gone.queue.waiting) == (0, 0)


# Names


class NameServer(asyncio.DatagramProtocol):
    """Answers as its table says."""

    def __init__(self):
        self.table = {}
        self.silent = False

    def connection_made(self, transport):
        self._transport = transport

    def datagram_received(self, data, address):
        if self.silent:
            return
        query = dns.message.from_wire(data)
        answer = dns.message.make_response(query)
        question = query.question[0]
        records = self.table.get((question.name.to_text(), dns.rdatatype.to_text(question.rdtype)))
        if records:
            answer.answer.append(dns.rrset.from_text(question.name, 1, "IN", question.rdtype, *records))
        elif not any(name == question.name.to_text() for name, _ in self.table):
            answer.set_rcode(dns.rcode.NXDOMAIN)
        self._transport.sendto(answer.to_wire(), address)


@asynccontextmanager
async def name_server():
    transport, server = await asyncio.get_running_loop().create_datagram_endpoint(
        NameServer, local_addr=("127.0.0.1", 0)
    )
    resolver = dns.asyncresolver.Resolver(configure=False)
    resolver.nameservers, resolver.port = ["127.0.0.1"], transport.get_extra_info("sockname")[1]
    resolver.cache = None
    try:
        yield server, DnsNames(resolver)
    finally:
        transport.close()


async def test_a_name_has_all_its_addresses_of_both_kinds():
    async with name_server() as (server, names):
        server.table = {
            ("vllm.test.", "A"): ["10.0.0.2", "10.0.0.1"],
            ("vllm.test.", "AAAA"): ["fd00::1"],
            ("only4.test.", "A"): ["10.0.0.9"],
        }
        assert await names.addresses("vllm.test") == ["10.0.0.1", "10.0.0.2", "fd00::1"]
        assert await names.addresses("only4.test.") == ["10.0.0.9"]
        assert await names.addresses("nothing.invalid") == []


async def test_a_name_of_the_hosts_own_table_is_known_too():
    async with name_server() as (_, names):
        assert "127.0.0.1" in await names.addresses("localhost")


async def test_replicas_come_and_go_with_the_addresses_of_their_name():
    async with faulty(OK) as first:
        async with faulty_at("127.0.0.2", first.port) as third:
            names = FixedNames(service=["127.0.0.1"])
            configuration = pool(
                name="main", replicas=[], dns=f"service:{first.port}", dns_interval_seconds=0.05, **QUIET
            )
            async with relaying(configuration, names=names) as door:
                assert urls(door) == [f"http://127.0.0.1:{first.port}/v1"]
                names.known["service"] = ["127.0.0.1", "127.0.0.2"]
                await until(lambda: len(urls(door)) == 2)
                await asyncio.gather(*(door.ask() for _ in range(20)))
                assert min(len(first.requests), len(third.requests)) >= 1
                names.known["service"] = ["127.0.0.2"]
                await until(lambda: len(urls(door)) == 1)
                heard = len(first.requests)
                assert (await door.ask()).status_code == 200
                assert len(first.requests) == heard
                names.known["service"] = []
                await asyncio.sleep(0.3)
                assert len(urls(door)) == 1, "a lost name server takes no model away"


@asynccontextmanager
async def faulty_at(host, port):
    server = FaultyServer(OK)
    await server.start(port, host)
    try:
        yield server
    finally:
        await server.stop()


async def test_a_model_is_not_unknown_only_because_no_address_is_found():
    configuration = pool(name="main", replicas=[], models=[], dns="service:8000", **QUIET)
    async with relaying(configuration, names=FixedNames()) as door:
        assert (await door.ask()).status_code == 503


async def test_an_address_of_ipv6_is_written_as_urls_do():
    names = FixedNames(service=["::1"])
    configuration = pool(name="main", replicas=[], dns="service:8000", **QUIET)
    pools = ModelPools(names)
    await pools.apply(PoolsFile(pools=(configuration,)), {})
    assert [replica.url for replica in pools.pools["main"].replicas] == ["http://[::1]:8000/v1"]
    await pools.close()
