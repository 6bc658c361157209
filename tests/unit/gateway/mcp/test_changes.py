import asyncio
from contextlib import aclosing, asynccontextmanager

import pytest
import yaml

from services.gateway.errors import ApiError
from services.gateway.mcp.changes import Changes, as_events
from services.runtime.tenants import TenantDirectory


class House:
    """Tenants on disk, and one who watches them."""

    def __init__(self, folder, **options):
        self.folder = folder
        self.draining = False
        for name in ("acme", "other"):
            self.write(name)
        self.tenants = TenantDirectory(folder)
        self.changes = Changes(self.tenants, lambda: self.draining, look_seconds=0.01, settle_seconds=0, **options)

    def write(self, name, **fields):
        (self.folder / f"{name}.yaml").write_text(yaml.safe_dump({"id": name} | fields))

    def change(self, name, **fields):
        self.write(name, **fields)
        assert self.tenants.reload()


@asynccontextmanager
async def watched(folder, **options):
    house = House(folder, **options)
    watching = asyncio.create_task(house.changes.watch())
    try:
        async with asyncio.timeout(30):
            yield house
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def test_who_listens_is_told_of_their_own_tools_only(tmp_path):
    async with watched(tmp_path) as house:
        async with (
            aclosing(house.changes.open("acme", "s")) as mine,
            aclosing(house.changes.open("other", "t")) as theirs,
        ):
            house.change("acme", web={"sovereign": True})
            assert await anext(mine) is True
            house.change("other", tools={"web_search": {"enabled": False}})
            assert await anext(theirs) is True
            house.changes.close()
            assert [one async for one in mine] == []
            assert [one async for one in theirs] == []
    assert house.changes.streams() == []


async def test_what_makes_no_tools_is_not_told(tmp_path):
    async with watched(tmp_path) as house, aclosing(house.changes.open("acme", "s")) as mine:
        house.change("acme", limits={"requests_per_minute": 7})
        house.change("acme", limits={"requests_per_minute": 7}, web={"sovereign": True})
        house.change("acme", limits={"requests_per_minute": 8}, web={"sovereign": True})
        assert await anext(mine) is True
        house.changes.close()
        assert [one async for one in mine] == []


async def test_changes_before_somebody_listened_are_not_told(tmp_path):
    async with watched(tmp_path) as house:
        async with aclosing(house.changes.open("acme", "s")) as earlier:
            house.change("acme", web={"sovereign": True})
            assert await anext(earlier) is True
        house.change("acme")
        async with aclosing(house.changes.open("acme", "s")) as later:
            house.draining = True
            assert [one async for one in later] == []


async def test_silence_is_filled_with_signs_of_life(tmp_path):
    async with watched(tmp_path, keep_alive_seconds=0.01) as house:
        async with aclosing(as_events(house.changes.open("acme", "s"))) as events:
            assert await anext(events) == b": listening\n\n"
            assert await anext(events) == b": keep-alive\n\n"
            house.change("acme", web={"sovereign": True})
            while (event := await anext(events)) == b": keep-alive\n\n":
                pass
    assert event == b'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n'


async def test_streams_end_with_their_session_their_tenant_and_the_process(tmp_path):
    async with watched(tmp_path) as house:
        async with (
            aclosing(house.changes.open("acme", "s")) as first,
            aclosing(house.changes.open("acme", "t")) as second,
        ):
            house.changes.end("s")
            assert [one async for one in first] == []
            assert house.changes.streams() == ["acme"]
            (tmp_path / "acme.yaml").unlink()
            assert house.tenants.reload()
            assert [one async for one in second] == []
        house.draining = True
        async with aclosing(house.changes.open("other", "u")) as third:
            assert [one async for one in third] == []


async def test_a_tenant_that_listens_too_often_is_refused(tmp_path):
    async with watched(tmp_path, max_streams=1) as house, aclosing(house.changes.open("acme", "s")):
        with pytest.raises(ApiError) as caught:
            house.changes.open("acme", "t")
        async with aclosing(house.changes.open("other", "u")):
            pass
    assert (caught.value.status_code, caught.value.code) == (429, "too_many_streams")


async def test_the_end_reaches_who_does_not_read(tmp_path):
    async with watched(tmp_path) as house:
        async with aclosing(house.changes.open("acme", "s")) as mine:
            for _ in range(20):
                house.changes.end("s")
            assert [one async for one in mine] == []
