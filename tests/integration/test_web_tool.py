"""Search and fetch against real servers on loopback; names are resolved by the test, addresses are dialled for real."""

import asyncio
import gzip
import io
import zlib
from contextlib import asynccontextmanager
from datetime import date

import pypdfium2
import pytest
from pydantic import SecretStr

from sabueso.web_tool.v1 import web_tool_pb2 as pb
from sabueso.web_tool.v1 import web_tool_pb2_grpc as rpc
from services.runtime import errors
from services.runtime.sandbox import Sandbox
from services.runtime.server import Served
from services.runtime.settings import WrongSetting
from services.runtime.tenants import TenantDirectory
from services.runtime.testing import act_as, running
from services.web_tool.config import Settings
from services.web_tool.connecting import Connector
from services.web_tool.fetch import Fetcher
from services.web_tool.pace import Pace
from services.web_tool.reading import Reader
from services.web_tool.robots import Robots
from services.web_tool.search.breaker import Breaker
from services.web_tool.search.fallback import Fallback
from services.web_tool.search.searxng import SearXNG
from services.web_tool.server import make_search
from services.web_tool.service import WebToolService, exceptions_from

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


@pytest.fixture(scope="module")
def sandbox():
    """Makes text of pages; started once, since that takes half a second."""
    made = Sandbox("services.web_tool.extraction:extract", memory_bytes=512 * 2**20, timeout_seconds=10)
    made.start()
    yield made
    made.close()


@pytest.fixture
def web(tmp_path, sandbox):
    """Serves pages at `public.test` and a web tool that may read them; yields its stub, their address, and the site."""

    @asynccontextmanager
    async def serve(pages, tenant="id: acme\n", *, timeout_seconds=2, today=date(2026, 3, 31)):
        (tmp_path / "acme.yaml").write_text(tenant)
        site = Site(pages)
        server = await asyncio.start_server(site, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        async def resolve(host, port):
            return {"private.test": ["93.184.215.14", "10.0.0.1"]}.get(host, ["127.0.0.1"])

        fetcher = Fetcher(Connector(resolve=resolve), Pace(100), max_body_bytes=100_000)
        reader = Reader(fetcher, Robots(fetcher), sandbox, timeout_seconds=timeout_seconds)
        searxng = SearXNG(f"http://127.0.0.1:{port}")
        search = Fallback([searxng], {"searxng": Breaker(failures=3, rest_seconds=30)}, 1)
        exceptions = frozenset({("public.test", port)})
        service = WebToolService(search, reader, TenantDirectory(tmp_path), exceptions, today=lambda: today)
        served = Served(
            service, rpc.add_WebToolServiceServicer_to_server, pb.DESCRIPTOR.services_by_name["WebToolService"],
            close=search.close,
        )  # fmt: skip
        act_as("acme")
        try:
            async with running(served) as channel:
                yield rpc.WebToolServiceStub(channel), f"http://public.test:{port}", site
        finally:
            server.close()
            for task in list(site.tasks):
                task.cancel()
            await asyncio.gather(*site.tasks, return_exceptions=True)

    return serve


async def refusal(call):
    with pytest.raises(rpc.grpc.aio.AioRpcError) as caught:
        await call
    return errors.from_rpc(caught.value, "web_tool")


async def fetched(web, page, **limits):
    async with web({"/": page}, **limits) as (stub, url, _):
        return await stub.Fetch(pb.FetchRequest(url=f"{url}/"))


async def test_a_page_is_read_as_text(web):
    page = await fetched(web, answer(body=PAGE.format("El cobre sube.").encode(), content_type=HTML))
    assert (page.title, page.text, page.truncated) == ("Cobre", "El cobre sube.", False)


async def test_the_charset_of_the_page_itself_counts(web):
    body = b"<html><head><meta charset=iso-8859-1></head><body><p>m\xf6se m\xf6se</p></body></html>"
    assert "möse" in (await fetched(web, answer(body=body, content_type="text/html"))).text


async def test_invisible_characters_are_removed(web):
    body = PAGE.format("vis\u200bible\U000e0041").encode()
    assert (await fetched(web, answer(body=body, content_type=HTML))).text == "visible"


async def test_a_relative_redirect_is_followed(web):
    pages = {"/a/b": answer(302, location="../c"), "/c": answer(body=b"there", content_type="text/plain")}
    async with web(pages) as (stub, url, _):
        page = await stub.Fetch(pb.FetchRequest(url=f"{url}/a/b"))
    assert (page.text, page.final_url) == ("there", f"{url}/c")


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "http://10.0.0.1/", "http://private.test/", "http://redis:80/"]
)
async def test_a_redirect_to_a_forbidden_place_is_refused(web, location):
    async with web({"/": answer(302, location=location)}) as (stub, url, site):
        error = await refusal(stub.Fetch(pb.FetchRequest(url=f"{url}/")))
    assert isinstance(error, errors.NotPermitted)
    assert len(site.asked) == 1


async def test_a_redirect_loop_ends(web):
    async with web({"/": answer(302, location="/")}) as (stub, url, _):
        error = await refusal(stub.Fetch(pb.FetchRequest(url=f"{url}/")))
    assert error.metadata["rule"] == "redirects"


async def test_a_gzip_bomb_is_cut(web):
    body = gzip.compress(b"a" * 50_000_000)
    page = await fetched(web, answer(body=body, content_type="text/plain", content_encoding="gzip"))
    assert page.truncated
    assert len(page.text) == 20_000


async def test_deflate_is_read(web):
    body = zlib.compress(b"deflated")
    page = await fetched(web, answer(body=body, content_type="text/plain", content_encoding="deflate"))
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
async def test_a_bad_page_is_a_typed_error(web, page, kind):
    async with web({"/": page}, timeout_seconds=1) as (stub, url, _):
        assert type(await refusal(stub.Fetch(pb.FetchRequest(url=f"{url}/")))) is kind


async def test_a_file_is_handed_on_as_bytes_too(web):
    made = io.BytesIO()
    with pypdfium2.PdfDocument.new() as pdf:
        pdf.new_page(100, 100).close()
        pdf.save(made)
    page = await fetched(web, answer(body=made.getvalue(), content_type="application/pdf"))
    assert (page.content, page.text) == (made.getvalue(), "")


async def test_search_gives_the_results_of_the_engine(web):
    body = b"""{"results": [
        {"url": "https://a.example/x", "title": "A", "content": "about a", "publishedDate": "2026-01-02"},
        {"url": "http://10.0.0.1:22/", "title": "inside"}, "noise"],
        "unresponsive_engines": [["bing", "timeout"], "od\\ud800d"]}"""
    async with web({"/search": answer(body=body)}) as (stub, _, site):
        found = await stub.Search(pb.SearchRequest(query="a b", language="es"))
    assert [(r.url, r.title, r.snippet, r.published) for r in found.results] == [
        ("https://a.example/x", "A", "about a", "2026-01-02")
    ]
    assert found.unresponsive_engines == ["bing", "odd"]
    assert "q=a+b&format=json&language=es" in site.asked[0]


async def test_no_results_are_a_success(web):
    async with web({"/search": answer(body=b'{"results": []}')}) as (stub, _, _site):
        assert not (await stub.Search(pb.SearchRequest(query="a"))).results


@pytest.mark.parametrize(
    "page", [answer(403, b"<html>"), answer(200, b"<html>"), answer(429)], ids=["403", "HTML", "429"]
)
async def test_a_search_that_is_refused_is_not_an_empty_result(web, page):
    async with web({"/search": page}) as (stub, _, _site):
        assert isinstance(await refusal(stub.Search(pb.SearchRequest(query="a"))), errors.DependencyFailed)


async def test_a_sovereign_tenant_has_no_web(web):
    async with web({}, tenant="id: acme\nweb: {sovereign: true}\n") as (stub, url, site):
        for call in (stub.Fetch(pb.FetchRequest(url=url)), stub.Search(pb.SearchRequest(query="a"))):
            assert (await refusal(call)).metadata["rule"] == "sovereign"
    assert not site.asked


@pytest.mark.parametrize("request_", [{"query": ""}, {"query": "x" * 401}, {"query": "x", "result_count": 21}])
async def test_a_bad_search_names_the_field(web, request_):
    async with web({}) as (stub, _, _site):
        error = await refusal(stub.Search(pb.SearchRequest(**request_)))
    assert error.metadata["field"] in request_


async def test_a_page_says_charset_and_whether_something_hidden_was_taken_out(web):
    async with web({"/": answer(body=PAGE.format("vis\u200bible").encode(), content_type=HTML)}) as (stub, url, _):
        page = await stub.Fetch(pb.FetchRequest(url=f"{url}/"))
    assert (page.text, page.removed_invisible, page.charset) == ("visible", True, "utf-8")
    assert page.fetch_time.seconds > 0


RESULTS = b"""{"results": [
    {"url": "https://a.example/x?utm_source=s", "title": "<b>A</b> &amp; B", "content": "vis\\u200bible"},
    {"url": "http://www.a.example/x#part", "title": "again", "content": "", "publishedDate": "hace 3 d\\u00edas"},
    {"url": "https://b.example/", "title": "", "content": "", "publishedDate": null}]}"""


async def test_results_are_tidied(web):
    async with web({"/search": answer(body=RESULTS)}) as (stub, _, _site):
        found = await stub.Search(pb.SearchRequest(query="a"))
    assert [(r.url, r.title, r.snippet, r.published) for r in found.results] == [
        ("https://a.example/x?utm_source=s", "A & B", "visible", "2026-03-28"),
        ("https://b.example/", "", "", ""),
    ]
    assert (found.provider, found.redacted_query) == ("searxng", "")


TENANT = "id: acme\nweb: {internal_terms: ['Proyecto Halcón'], internal_data: %s}\n"


async def test_a_query_with_internal_data_goes_nowhere(web):
    async with web({"/search": answer(body=RESULTS)}, TENANT % "refuse") as (stub, _, site):
        for query in ("coste proyecto halcon", "quién es 12345678Z"):
            error = await refusal(stub.Search(pb.SearchRequest(query=query)))
            assert error.metadata["rule"] == "internal_data"
            assert "halcon" not in error.message.lower()
            assert "12345678" not in error.message
    assert not site.asked


@pytest.mark.parametrize("rest", ["?q=Proyecto%20Halc%C3%B3n", "proyecto-halcon/x", "?d=UHJveWVjdG8gSGFsY8Ozbg=="])
async def test_a_url_with_an_internal_term_is_read_only_for_a_person(web, rest):
    async with web({}, TENANT % "redact") as (stub, _, site):
        url = f"http://elsewhere.test/{rest}"
        assert (await refusal(stub.Fetch(pb.FetchRequest(url=url)))).metadata["rule"] == "internal_data"
        error = await refusal(stub.Fetch(pb.FetchRequest(url=url, for_ingestion=True)))
        assert error.metadata.get("rule") != "internal_data"
    assert not site.asked


async def test_internal_data_is_taken_out_of_a_query_and_the_answer_says_so(web):
    async with web({"/search": answer(body=RESULTS)}, TENANT % "redact") as (stub, _, site):
        found = await stub.Search(pb.SearchRequest(query="coste Proyecto Halcón Acme 2025", internal_terms=["ACME"]))
    assert found.redacted_query == "coste 2025"
    assert "q=coste+2025&" in site.asked[0]


async def test_what_nobody_sees_of_a_query_is_not_sent(web):
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "secret")
    async with web({"/search": answer(body=RESULTS)}) as (stub, _, site):
        await stub.Search(pb.SearchRequest(query=f"precio{hidden} \n del\u200b cobre"))
    assert "q=precio+del+cobre&" in site.asked[0]


@pytest.mark.parametrize(
    "request_",
    [{"language": "spanish"}, {"language": "ES"}, {"internal_terms": ["x" * 201]}, {"internal_terms": ["x"] * 2001}],
    ids=["word", "capitals", "long term", "many terms"],
)
async def test_a_bad_field_of_a_search_is_named(web, request_):
    async with web({}) as (stub, _, _site):
        error = await refusal(stub.Search(pb.SearchRequest(query="x", **request_)))
    assert error.metadata["field"] in request_


def settings(**fields):
    return Settings(identity_secret=SecretStr("x" * 32), **fields)


@pytest.mark.parametrize(
    ("fields", "providers"),
    [
        ({}, []),
        ({"searxng_url": "http://s:1"}, ["searxng"]),
        ({"brave_api_key": "k"}, []),
        (
            {"search_providers": "brave, searxng", "searxng_url": "http://s:1", "brave_api_key": "k"},
            ["brave", "searxng"],
        ),
        (
            {
                "search_providers": "tavily,serper,google",
                "tavily_api_key": "k",
                "serper_api_key": " k\n",
                "google_api_key": "k",
                "google_engine_id": "cx",
            },
            ["tavily", "serper", "google"],
        ),
    ],
    ids=["nothing", "only searxng", "a key alone", "an order", "three"],
)
async def test_providers_are_those_that_the_settings_name(fields, providers):
    search = make_search(settings(**fields))
    assert search.names == providers
    await search.close()


@pytest.mark.parametrize(
    ("fields", "variable"),
    [
        ({"search_providers": "bing"}, "SABUESO_SEARCH_PROVIDERS"),
        ({"search_providers": "brave,brave", "brave_api_key": "k"}, "SABUESO_SEARCH_PROVIDERS"),
        ({"search_providers": "searxng"}, "SABUESO_SEARXNG_URL"),
        ({"search_providers": "brave"}, "SABUESO_BRAVE_API_KEY"),
        ({"search_providers": "tavily", "tavily_api_key": " "}, "SABUESO_TAVILY_API_KEY"),
        ({"search_providers": "serper", "serper_api_key": "a b"}, "SABUESO_SERPER_API_KEY"),
        ({"search_providers": "google", "google_engine_id": "cx"}, "SABUESO_GOOGLE_API_KEY"),
        ({"search_providers": "google", "google_api_key": "k"}, "SABUESO_GOOGLE_ENGINE_ID"),
        ({"search_providers": "brave", "brave_api_key": "k", "egress_proxy": "ftp://u:p@x:1"}, "SABUESO_EGRESS_PROXY"),
    ],
)
def test_a_provider_that_cannot_work_stops_the_start_and_names_its_setting(fields, variable):
    with pytest.raises(WrongSetting) as wrong:
        make_search(settings(**fields))
    assert wrong.value.setting == variable
    assert "u:p" not in str(wrong.value)


@pytest.mark.parametrize("text", ["host", "host:", ":80", "host:http", "host:0", "host:65536", "a:1,b"])
def test_addresses_that_are_wrong_stop_the_start(text):
    with pytest.raises(WrongSetting) as wrong:
        exceptions_from(text)
    assert wrong.value.setting == "SABUESO_ALLOWED_PRIVATE_ADDRESSES"


def test_addresses_are_read():
    assert exceptions_from(" Wiki.corp:8080, [::1]:80 ") == {("wiki.corp", 8080), ("::1", 80)}


def test_no_key_shows_in_the_settings():
    assert "s3cr3t" not in repr(settings(brave_api_key="s3cr3t", egress_proxy="http://u:s3cr3t@p:1"))
