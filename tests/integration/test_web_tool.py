"""Search and fetch against real servers on loopback; names are resolved by the test, addresses are dialled for real."""

import asyncio
import gzip
import zlib
from contextlib import asynccontextmanager

import pytest

from sabueso.web_tool.v1 import web_tool_pb2 as pb
from sabueso.web_tool.v1 import web_tool_pb2_grpc as rpc
from services.runtime import errors
from services.runtime.server import Served
from services.runtime.tenants import TenantDirectory
from services.runtime.testing import act_as, running
from services.web_tool.fetch import Fetcher
from services.web_tool.search import SearXNG
from services.web_tool.service import WebToolService

HTML = "text/html; charset=utf-8"
PAGE = "<html><head><title>Cobre</title></head><body><article><p>{}</p></article></body></html>"


def answer(status=200, body=b"", **headers):
    lines = [f"HTTP/1.1 {status} X", *(f"{k.replace('_', '-')}: {v}" for k, v in headers.items())]
    if "content_length" not in headers:
        lines.append(f"content-length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


class Site:
    """Answers each path with prepared bytes, and remembers what was asked."""

    def __init__(self, pages):
        self.pages = pages
        self.asked = []
        self.tasks = set()

    async def __call__(self, reader, writer):
        self.tasks.add(asyncio.current_task())
        try:
            await self.reply(reader, writer)
        finally:
            writer.transport.abort()
            self.tasks.discard(asyncio.current_task())

    async def reply(self, reader, writer):
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(request)
        page = self.pages[request.split()[1].split("?")[0]]
        pieces = page if isinstance(page, list) else [page]
        for piece in pieces:
            if isinstance(piece, float):
                await asyncio.sleep(piece)
            else:
                writer.write(piece)
                try:
                    await writer.drain()
                except ConnectionError:
                    return
        writer.close()
        await asyncio.sleep(0.05)  # lets the last bytes leave before the abort


@asynccontextmanager
async def web(tmp_path, pages, tenant="id: acme\n", **limits):
    (tmp_path / "acme.yaml").write_text(tenant)
    site = Site(pages)
    server = await asyncio.start_server(site, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def resolve(host, port):
        return {"private.test": ["93.184.215.14", "10.0.0.1"]}.get(host, ["127.0.0.1"])

    fetcher = Fetcher(**{"timeout_seconds": 2, "max_body_bytes": 100_000, **limits}, resolve=resolve)
    engine = SearXNG(f"http://127.0.0.1:{port}", timeout_seconds=1)
    exceptions = frozenset({("public.test", port)})
    service = WebToolService(engine, fetcher, TenantDirectory(tmp_path), exceptions)
    served = Served(
        service, rpc.add_WebToolServiceServicer_to_server, pb.DESCRIPTOR.services_by_name["WebToolService"],
        close=engine.close,
    )  # fmt: skip
    act_as("acme")
    async with running(served) as channel:
        yield rpc.WebToolServiceStub(channel), f"http://public.test:{port}", site
    server.close()
    for task in list(site.tasks):
        task.cancel()
    await asyncio.gather(*site.tasks, return_exceptions=True)


async def refusal(call):
    with pytest.raises(rpc.grpc.aio.AioRpcError) as caught:
        await call
    return errors.from_rpc(caught.value, "web_tool")


async def fetched(tmp_path, page, **limits):
    async with web(tmp_path, {"/": page}, **limits) as (stub, url, _):
        return await stub.Fetch(pb.FetchRequest(url=f"{url}/"))


async def test_a_page_is_read_as_text(tmp_path):
    page = await fetched(tmp_path, answer(body=PAGE.format("El cobre sube.").encode(), content_type=HTML))
    assert (page.title, page.text, page.truncated) == ("Cobre", "El cobre sube.", False)


async def test_the_charset_of_the_page_itself_counts(tmp_path):
    body = b"<html><head><meta charset=iso-8859-1></head><body><p>m\xf6se m\xf6se</p></body></html>"
    assert "möse" in (await fetched(tmp_path, answer(body=body, content_type="text/html"))).text


async def test_invisible_characters_are_removed(tmp_path):
    body = PAGE.format("vis\u200bible\U000e0041").encode()
    assert (await fetched(tmp_path, answer(body=body, content_type=HTML))).text == "visible"


async def test_a_relative_redirect_is_followed(tmp_path):
    pages = {"/a/b": answer(302, location="../c"), "/c": answer(body=b"there", content_type="text/plain")}
    async with web(tmp_path, pages) as (stub, url, _):
        page = await stub.Fetch(pb.FetchRequest(url=f"{url}/a/b"))
    assert (page.text, page.final_url) == ("there", f"{url}/c")


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "http://10.0.0.1/", "http://private.test/", "http://redis:80/"]
)
async def test_a_redirect_to_a_forbidden_place_is_refused(tmp_path, location):
    async with web(tmp_path, {"/": answer(302, location=location)}) as (stub, url, site):
        error = await refusal(stub.Fetch(pb.FetchRequest(url=f"{url}/")))
    assert isinstance(error, errors.NotPermitted)
    assert len(site.asked) == 1


async def test_a_redirect_loop_ends(tmp_path):
    async with web(tmp_path, {"/": answer(302, location="/")}) as (stub, url, _):
        error = await refusal(stub.Fetch(pb.FetchRequest(url=f"{url}/")))
    assert error.metadata["rule"] == "redirects"


async def test_a_gzip_bomb_is_cut(tmp_path):
    body = gzip.compress(b"a" * 50_000_000)
    page = await fetched(tmp_path, answer(body=body, content_type="text/plain", content_encoding="gzip"))
    assert page.truncated
    assert len(page.text) == 20_000


async def test_deflate_is_read(tmp_path):
    body = zlib.compress(b"deflated")
    page = await fetched(tmp_path, answer(body=body, content_type="text/plain", content_encoding="deflate"))
    assert page.text == "deflated"


@pytest.mark.parametrize(
    ("page", "kind"),
    [
        (answer(404, b"<p>gone</p>"), errors.NotFound),
        (answer(503), errors.DependencyFailed),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n0123456789"], errors.DependencyFailed),
        ([b"HTTP/1.1 200 OK\r\nx: " + b"h" * 2_000_000 + b"\r\n\r\n"], errors.DependencyFailed),
        (answer(body=b"x", content_encoding="gzip, gzip"), errors.NotPermitted),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 40\r\n\r\n", *([0.1, b"x"] * 40)], errors.DeadlineExceeded),
        ([5.0], errors.DeadlineExceeded),
    ],
    ids=["404", "503", "shorter than said", "huge header", "two encodings", "drip", "silence"],
)
async def test_a_bad_page_is_a_typed_error(tmp_path, page, kind):
    async with web(tmp_path, {"/": page}, timeout_seconds=1) as (stub, url, _):
        assert type(await refusal(stub.Fetch(pb.FetchRequest(url=f"{url}/")))) is kind


async def test_a_file_is_handed_on_as_bytes(tmp_path):
    page = await fetched(tmp_path, answer(body=b"%PDF-1.7", content_type="application/pdf"))
    assert (page.content, page.text) == (b"%PDF-1.7", "")


async def test_search_gives_the_results_of_the_engine(tmp_path):
    body = b"""{"results": [
        {"url": "https://a.example/x", "title": "A", "content": "about a", "publishedDate": "2026-01-02"},
        {"url": "http://10.0.0.1:22/", "title": "inside"}, "noise"], "unresponsive_engines": [["bing", "timeout"]]}"""
    async with web(tmp_path, {"/search": answer(body=body)}) as (stub, _, site):
        found = await stub.Search(pb.SearchRequest(query="a b", language="es"))
    assert [(r.url, r.title, r.snippet, r.published) for r in found.results] == [
        ("https://a.example/x", "A", "about a", "2026-01-02")
    ]
    assert found.unresponsive_engines == ["bing"]
    assert "q=a+b&format=json&language=es" in site.asked[0]


async def test_no_results_are_a_success(tmp_path):
    async with web(tmp_path, {"/search": answer(body=b'{"results": []}')}) as (stub, _, _site):
        assert not (await stub.Search(pb.SearchRequest(query="a"))).results


@pytest.mark.parametrize(
    "page", [answer(403, b"<html>"), answer(200, b"<html>"), answer(429)], ids=["403", "HTML", "429"]
)
async def test_a_search_that_is_refused_is_not_an_empty_result(tmp_path, page):
    async with web(tmp_path, {"/search": page}) as (stub, _, _site):
        assert isinstance(await refusal(stub.Search(pb.SearchRequest(query="a"))), errors.DependencyFailed)


async def test_a_sovereign_tenant_has_no_web(tmp_path):
    async with web(tmp_path, {}, tenant="id: acme\nweb: {sovereign: true}\n") as (stub, url, site):
        for call in (stub.Fetch(pb.FetchRequest(url=url)), stub.Search(pb.SearchRequest(query="a"))):
            assert (await refusal(call)).metadata["rule"] == "sovereign"
    assert not site.asked


@pytest.mark.parametrize("request_", [{"query": ""}, {"query": "x" * 401}, {"query": "x", "result_count": 21}])
async def test_a_bad_search_names_the_field(tmp_path, request_):
    async with web(tmp_path, {}) as (stub, _, _site):
        error = await refusal(stub.Search(pb.SearchRequest(**request_)))
    assert error.metadata["field"] in request_
