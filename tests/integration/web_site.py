"""A hostile web on loopback: names, a public address that leads to a local server, and a proxy that keeps a diary."""

import asyncio
import contextlib
import ssl
from contextlib import asynccontextmanager

import httpcore2
import trustme

from services.runtime.errors import NotFound
from services.web_tool.connecting import Connector, Proxy
from services.web_tool.fetch import Fetcher
from services.web_tool.pace import Pace
from services.web_tool.reading import Reader
from services.web_tool.robots import Robots

# Stand-ins: public by every rule, and never dialled for real.
PUBLIC, OTHER = "93.184.215.14", "93.184.215.15"
HTML = "text/html; charset=utf-8"
NAMES = {"public.test": [PUBLIC], "other.test": [OTHER], "third.test": [OTHER]}
CA = trustme.CA()
SERVING = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
CA.issue_cert("public.test", "other.test").configure_cert(SERVING)
TRUSTING = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
CA.configure_trust(TRUSTING)


def answer(status=200, body=b"", **headers):
    """An HTTP answer as bytes; header names are written with `_`, and `content_length=None` leaves that one out."""
    headers = {"content_length": len(body), **headers}
    lines = [f"{k.replace('_', '-')}: {v}" for k, v in headers.items() if v is not None]
    return (f"HTTP/1.1 {status} X\r\n" + "".join(f"{line}\r\n" for line in lines) + "\r\n").encode() + body


def page(body, content_type=HTML, **headers):
    return answer(200, body.encode() if isinstance(body, str) else body, content_type=content_type, **headers)


def redirect(location, status=302):
    return answer(status, location=location)


class Endless:
    """A head, then the same piece until the other side has had enough."""

    def __init__(self, head, piece, seconds=0.0):
        self.head, self.piece, self.seconds = head, piece, seconds

    async def pieces(self):
        yield self.head
        while True:
            yield self.piece
            await asyncio.sleep(self.seconds)


class Site:
    """Answers each path, or each (host, path), with prepared bytes, pieces and pauses; remembers what was asked."""

    def __init__(self, pages):
        self.pages = {"/robots.txt": answer(404), **pages}
        self.asked = []
        self.tasks = set()

    def paths(self):
        return [request.split()[1] for request in self.asked if "/robots.txt" not in request.split()[1]]

    async def __call__(self, reader, writer):
        self.tasks.add(asyncio.current_task())
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self.reply(reader, writer)
        finally:
            writer.transport.abort()
            self.tasks.discard(asyncio.current_task())

    async def reply(self, reader, writer):
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(request)
        path = request.split()[1].partition("?")[0]
        host = request.lower().partition("\r\nhost: ")[2].partition("\r\n")[0]
        found = self.pages.get((host, path), self.pages.get(path, answer(404)))
        async for piece in self._pieces(found):
            if isinstance(piece, float):
                await asyncio.sleep(piece)
            else:
                writer.write(piece)
                await writer.drain()
        writer.write_eof() if writer.can_write_eof() else writer.close()
        await reader.read()  # until the other side has taken it all and goes

    async def _pieces(self, found):
        if isinstance(found, Endless):
            async for piece in found.pieces():
                yield piece
        else:
            for piece in found if isinstance(found, list) else [found]:
                yield piece


class Names:
    """A resolver; a name's addresses may be a list of lists, one for each time that it is asked, the last for ever."""

    def __init__(self, names):
        self.names = {**NAMES, **names}
        self.asked = []

    async def __call__(self, host, port):
        self.asked.append(host)
        if host not in self.names:
            raise NotFound(f"There is no host `{host}`.")
        found = self.names[host]
        if isinstance(found[0], list):
            return found.pop(0) if len(found) > 1 else found[0]
        return found


class Detour(httpcore2.AsyncNetworkBackend):
    """Dials the local server instead of the stand-in, and nothing else; remembers what it was told to dial."""

    def __init__(self, ports):
        self.ports = ports
        self.dialled = []

    async def connect_tcp(self, host, port, timeout=None, *others, **more):  # noqa: ASYNC109 - the library's
        self.dialled.append((host, port))
        if (host, port) not in self.ports:
            raise httpcore2.ConnectError("no route")
        return await httpcore2.AnyIOBackend().connect_tcp("127.0.0.1", self.ports[host, port], timeout)


class TunnelProxy:
    """An HTTP proxy that only knows CONNECT; its own detours say where the addresses are."""

    def __init__(self, ports, wants=""):
        self.ports = ports
        self.wants = wants
        self.asked = []
        self.tasks = set()

    async def __call__(self, reader, writer):
        self.tasks.add(asyncio.current_task())
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self.tunnel(reader, writer)
        finally:
            writer.transport.abort()
            self.tasks.discard(asyncio.current_task())

    async def tunnel(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, target, _ = head.split(" ", 2)
        self.asked.append((method, target))
        host, _, port = target.rpartition(":")
        local = self.ports.get((host.strip("[]"), int(port)))
        if self.wants and self.wants not in head:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
        elif method != "CONNECT" or local is None:
            writer.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
        else:
            writer.write(b"HTTP/1.1 200 Connection established\r\nvia: test\r\n\r\n")
            there, back = await asyncio.open_connection("127.0.0.1", local)
            try:
                await asyncio.gather(self.copy(reader, back), self.copy(there, writer), return_exceptions=True)
            finally:
                back.transport.abort()
        await writer.drain()

    async def copy(self, reader, writer):
        while part := await reader.read(65536):
            writer.write(part)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


class Web:
    """What a test gets: the reader, and the diaries of all that it may have touched."""

    def __init__(self, reader, fetcher, site, names, detour, proxy):
        self.reader, self.fetcher, self.site = reader, fetcher, site
        self.names, self.detour, self.proxy = names, detour, proxy

    def reached(self):
        """Addresses to which connections were asked for, of the proxy where there is one."""
        if self.proxy is None:
            return {host for host, _ in self.detour.dialled}
        assert {host for host, _ in self.detour.dialled} <= {"proxy.inner"}
        return {target.rpartition(":")[0].strip("[]") for _, target in self.proxy.asked}


@asynccontextmanager
async def web(sandbox, pages, names=None, *, via_proxy=False, wants="", credentials="", **limits):
    """Serves `pages` at the stand-in's ports 80 and 443, and a Reader whose names and routes are the test's."""
    site = Site(pages)
    plain = await asyncio.start_server(site, "127.0.0.1", 0)
    secure = await asyncio.start_server(site, "127.0.0.1", 0, ssl=SERVING)
    of = {80: plain, 443: secure}
    ports = {(a, p): s.sockets[0].getsockname()[1] for a in (PUBLIC, OTHER) for p, s in of.items()}
    proxy = TunnelProxy(ports, wants) if via_proxy else None
    servers = [plain, secure]
    detour = Detour(ports)
    if proxy is not None:
        servers.append(await asyncio.start_server(proxy, "127.0.0.1", 0))
        detour = Detour({("proxy.inner", 3128): servers[-1].sockets[0].getsockname()[1]})
    resolver = Names(names or {})
    connector = Connector(
        resolve=resolver, dial=detour, proxy=Proxy.parse(f"http://{credentials}proxy.inner:3128") if proxy else None
    )
    max_body_bytes = limits.pop("max_body_bytes", 5 * 1024 * 1024)
    fetcher = Fetcher(connector, Pace(10_000), contact="ops@example.com", max_body_bytes=max_body_bytes, tls=TRUSTING)
    reader = Reader(fetcher, Robots(fetcher), sandbox, **{"timeout_seconds": 10, **limits})
    try:
        yield Web(reader, fetcher, site, resolver, detour, proxy)
    finally:
        for server in servers:
            server.close()
        tasks = [*site.tasks, *(proxy.tasks if proxy else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
