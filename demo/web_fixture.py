"""A fixture that stands in for the public web where there is no internet: SearXNG's JSON API over a few invented pages.

`python -m demo.web_fixture --port 8888` serves `GET /search?q=…&format=json` and the pages at `/pages/<slug>`.
"""

import argparse
import html
import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from importlib.resources import files

import uvicorn
import yaml
from markdown_it import MarkdownIt
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from demo.contracts import day

_STOP_WORDS = frozenset(
    "a al an and are at by como con cual cuanto cuesta de del do does el en es esta for from hay how hoy i in is it "
    "la las latest lo los me mi much no nos of on or para por que se si sobre su the there this to today un una "
    "what when which who with y".split()
)
_RESULTS = 10


@dataclass(frozen=True)
class PublicPage:
    """An invented page. `age_days` is how long ago it appeared; `{today}` and `{date}` in its text become dates."""

    slug: str
    title: str
    language: str
    age_days: int
    keywords: str
    text: str


@cache
def read_pages() -> tuple[PublicPage, ...]:
    """All pages, ordered by slug."""
    pages: list[PublicPage] = []
    for path in sorted(files("demo").joinpath("texts", "pages").iterdir(), key=lambda path: path.name):
        _, head, text = path.read_text(encoding="utf-8").split("---\n", 2)
        pages.append(PublicPage(slug=path.name.removesuffix(".md"), text=text.strip(), **yaml.safe_load(head)))
    return tuple(pages)


def words(text: str) -> set[str]:
    """Words that matter, without accents and case, cut to their first seven letters so that plurals meet."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return {word[:7].removesuffix("s") for word in re.findall(r"[a-z0-9]+", plain) if word not in _STOP_WORDS}


def rank(query: str, pages: Sequence[PublicPage]) -> list[PublicPage]:
    """Pages that share words with the query, best first: rare words count more, and words of the title twice.

    A page must hold at least half of the query's words, or one that its title has; otherwise it is no result.
    """
    asked = words(query)
    bodies = [words(f"{page.title} {page.keywords} {page.text}") for page in pages]
    scored: list[tuple[float, str, PublicPage]] = []
    for page, body in zip(pages, bodies, strict=True):
        heading = words(page.title)
        shared = asked & body
        if not shared or (2 * len(shared) < len(asked) and not shared & heading):
            continue
        rarity = {word: math.log(1 + len(pages) / sum(word in other for other in bodies)) for word in shared}
        score = sum(value * (2 if word in heading else 1) for word, value in rarity.items())
        scored.append((-score, page.slug, page))
    return [page for _, _, page in sorted(scored, key=lambda entry: entry[:2])]


def make_app(public_url: str = "", today: Callable[[], date] = date.today) -> Starlette:
    """The application. `public_url` begins the results' URLs; empty means the address that the request came to."""
    pages = {page.slug: page for page in read_pages()}

    def text_of(page: PublicPage) -> str:
        now = today()
        published = now - timedelta(days=page.age_days)
        return page.text.format(today=day(now, page.language), date=day(published, page.language))

    async def search(request: Request) -> Response:
        query = request.query_params.get("q", "").strip()
        if not query:
            return PlainTextResponse("search error: `q` is missing", status_code=400)
        if request.query_params.get("format") != "json":
            # What SearXNG answers where a format is not switched on.
            return PlainTextResponse("only format=json is served", status_code=403)
        language = request.query_params.get("language", "all").partition("-")[0]
        known = [page for page in pages.values() if language in ("all", "auto", "", page.language)]
        begin = public_url.rstrip("/") or str(request.base_url).rstrip("/")
        results = [
            {
                "url": f"{begin}/pages/{page.slug}",
                "title": page.title,
                "content": text_of(page).partition("\n")[0],
                "engine": "demo fixture",
                "publishedDate": (today() - timedelta(days=page.age_days)).isoformat(),
            }
            for page in rank(query, known)[:_RESULTS]
        ]
        answer = {"query": query, "number_of_results": len(results), "results": results}
        return JSONResponse({**answer, "answers": [], "suggestions": [], "infoboxes": [], "unresponsive_engines": []})

    async def show(request: Request) -> Response:
        page = pages.get(request.path_params["slug"])
        if page is None:
            return PlainTextResponse("no such page", status_code=404)
        title, body = html.escape(page.title), MarkdownIt().render(text_of(page))
        published = (today() - timedelta(days=page.age_days)).isoformat()
        return HTMLResponse(
            f'<!DOCTYPE html>\n<html lang="{page.language}">\n<head><meta charset="utf-8"><title>{title}</title>'
            f'<meta property="article:published_time" content="{published}"></head>\n'
            f"<body>\n<main><article><h1>{title}</h1>\n{body}</article></main>\n</body>\n</html>\n"
        )

    async def healthz(request: Request) -> Response:
        return PlainTextResponse("OK")  # SearXNG's own health path and text

    return Starlette(routes=[Route("/search", search), Route("/pages/{slug}", show), Route("/healthz", healthz)])


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m demo.web_fixture", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--public-url", default="", help="begin of the results' URLs, such as http://news.demo.example")
    options = parser.parse_args()
    uvicorn.run(make_app(options.public_url), host=options.host, port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
