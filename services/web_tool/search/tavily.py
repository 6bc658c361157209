"""Tavily: search made for agents. https://docs.tavily.com/documentation/api-reference/endpoint/search

POST /search, key as bearer token; 401 for a wrong key, 429 for too many requests, 432 and 433 for a plan that is used
up. Only news has `published_date`; there is no parameter for the language.
"""

from pydantic import SecretStr

from services.web_tool.search.json_api import JsonApi, records, text
from services.web_tool.search.provider import Found, Query, Result

_MAX_COUNT = 20


class Tavily:
    """Tavily's basic search: one credit a query."""

    name = "tavily"

    def __init__(self, url: str, key: SecretStr, *, proxy: str = "") -> None:
        """`url` is the base address, `proxy` an HTTP proxy or empty."""
        headers = {"authorization": f"Bearer {key.get_secret_value()}"}
        self._api = JsonApi(self.name, url, headers=headers, proxy=proxy)

    async def search(self, query: Query) -> Found:
        """See Provider."""
        body = {"query": query.text, "max_results": min(query.count, _MAX_COUNT), "search_depth": "basic"}
        answer = await self._api.post("/search", body)
        results = [
            Result(text(one, "url"), text(one, "title"), text(one, "content"), text(one, "published_date"))
            for one in records(answer.get("results"))
        ]
        return Found(self.name, results)

    async def close(self) -> None:
        """See Provider."""
        await self._api.close()
