"""SearXNG: a metasearch engine of one's own, and the default.

https://docs.searxng.org/dev/search_api.html: `json` must be enabled under `search.formats`, else it answers 403; its
limiter answers 429; the number of results cannot be chosen.
"""

from typing import cast

from services.web_tool.invisible import cleaned
from services.web_tool.search.json_api import JsonApi, records, text
from services.web_tool.search.provider import Cause, Found, Query, Result

_MAX_ENGINES, _MAX_NAME_CHARS = 50, 100


class SearXNG:
    """An instance of ours, reached without the egress proxy."""

    name = "searxng"

    def __init__(self, url: str) -> None:
        """`url` is the base address of the instance."""
        self._api = JsonApi(self.name, url, not_json=Cause.CONFIGURATION)

    async def search(self, query: Query) -> Found:
        """See Provider."""
        params = {"q": _without_commands(query.text), "format": "json"}
        if query.language:
            params["language"] = query.language
        answer = await self._api.get("/search", params)
        results = [
            Result(text(one, "url"), text(one, "title"), text(one, "content"), text(one, "publishedDate", "pubdate"))
            for one in records(answer.get("results"))
        ]
        return Found(self.name, results, _unresponsive(answer.get("unresponsive_engines")))

    async def close(self) -> None:
        """See Provider."""
        await self._api.close()


def _without_commands(query: str) -> str:
    """The query without what SearXNG obeys: `!engine`, `!!elsewhere` (a redirect), `:language`, `<timeout`."""
    return " ".join(filter(None, (word.lstrip("!:<") for word in query.split()))) or f'"{query}"'


def _unresponsive(value: object) -> list[str]:
    engines = cast(list[object], value) if isinstance(value, list) else []
    # Each is [engine, reason], or just the engine in old versions.
    names = (cast(list[object], one)[:1] if isinstance(one, list) else [one] for one in engines)
    shown = (cleaned(str(name)[:_MAX_NAME_CHARS])[0] for one in names for name in one)
    return list(dict.fromkeys(shown))[:_MAX_ENGINES]
