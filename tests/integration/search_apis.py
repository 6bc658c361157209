"""Plays the APIs of search providers on loopback, in the shapes that they document; the texts are invented."""

import asyncio
import json
from contextlib import asynccontextmanager

from pydantic import SecretStr

from services.web_tool.search.brave import Brave
from services.web_tool.search.google import Google
from services.web_tool.search.searxng import SearXNG
from services.web_tool.search.serper import Serper
from services.web_tool.search.tavily import Tavily

KEY = SecretStr("k3y-of-the-test")
PAGES = [("https://a.example/x", "A & B", "about a"), ("https://b.example/y", "Second", "about b")]


def searxng(pages=PAGES, **more):
    results = [
        {"url": url, "title": title, "content": text, "publishedDate": "2026-01-02T00:00:00", "engine": "bing",
         "engines": ["bing"], "score": 1.0, "category": "general"}
        for url, title, text in pages
    ]  # fmt: skip
    return {"query": "q", "number_of_results": 0, "results": results, "answers": [], "corrections": [], "infoboxes": [],
            "suggestions": [], "unresponsive_engines": [], **more}  # fmt: skip


def brave(pages=PAGES):
    results = [
        {"type": "search_result", "subtype": "generic", "url": url, "title": title.replace("&", "&amp;"),
         "description": f"<strong>{text}</strong>", "page_age": "2026-01-02T10:20:30", "age": "January 2, 2026",
         "language": "es", "family_friendly": True, "meta_url": {"hostname": "a.example"}}
        for url, title, text in pages
    ]  # fmt: skip
    web = {"type": "search", "results": results, "family_friendly": True}
    return {"type": "search", "query": {"original": "q"}, "mixed": {}, **({"web": web} if pages else {})}


def tavily(pages=PAGES):
    results = [
        {"url": url, "title": title, "content": text, "score": 0.9, "raw_content": None,
         "published_date": "Fri, 02 Jan 2026 10:20:30 GMT"}
        for url, title, text in pages
    ]  # fmt: skip
    return {"query": "q", "answer": None, "images": [], "results": results, "response_time": 0.5, "request_id": "r"}


def serper(pages=PAGES):
    organic = [
        {"title": title, "link": url, "snippet": text, "date": "Jan 2, 2026", "position": place}
        for place, (url, title, text) in enumerate(pages, start=1)
    ]
    return {"searchParameters": {"q": "q", "type": "search"}, "organic": organic, "relatedSearches": [], "credits": 1}


def google(pages=PAGES):
    items = [
        {"kind": "customsearch#result", "title": title, "link": url, "displayLink": "a.example", "snippet": text,
         "pagemap": {"metatags": [{"viewport": "x", "article:published_time": "2026-01-02T10:20:30+01:00"}]}}
        for url, title, text in pages
    ]  # fmt: skip
    return {
        "kind": "customsearch#search",
        "searchInformation": {"totalResults": "2"},
        **({"items": items} if pages else {}),
    }


SHAPES = {"searxng": searxng, "brave": brave, "tavily": tavily, "serper": serper, "google": google}


def provider(name, url, key=KEY, **more):
    match name:
        case "searxng":
            return SearXNG(url)
        case "brave":
            return Brave(url, key, **more)
        case "tavily":
            return Tavily(url, key)
        case "serper":
            return Serper(url, key, **more)
        case "google":
            return Google(url, key, "cx-1", **more)


def answer(body=b"", status=200, content_type="application/json", **headers):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {"content-type": content_type, "content-length": len(raw)}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + raw


class Cut(bytes):
    """An answer after which the connection ends."""


class Api:
    """Answers every request with the next of `answers`, the last one again and again; remembers what was asked.

    A number among the answers is a time to be silent.
    """

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        self.url = ""
        self._tasks = set()

    @asynccontextmanager
    async def listening(self):
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = next(
                    (int(line[15:]) for line in head.lower().split("\r\n") if line.startswith("content-length:")), 0
                )
                self.asked.append((head, (await reader.readexactly(length)).decode()))
                following = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if isinstance(following, bytes):
                    writer.write(following)
                    await writer.drain()
                    if isinstance(following, Cut):
                        return
                else:
                    await asyncio.sleep(following)
                    return
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()
            self._tasks.discard(asyncio.current_task())
