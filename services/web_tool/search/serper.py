"""Serper: Google's results. https://serper.dev

POST /search, key in `X-API-KEY`; 403 for a wrong key, 400 "Not enough credits", 429. Dates come in words of the
language asked for: `3 days ago`, `hace 3 días`.
"""

from pydantic import SecretStr

from services.web_tool.search.json_api import JsonApi, records, text
from services.web_tool.search.provider import Cause, Found, Query, Result

_SIGNS = {"Not enough credits": Cause.QUOTA}


class Serper:
    """Serper's web search."""

    name = "serper"

    def __init__(self, url: str, key: SecretStr, *, country: str = "", proxy: str = "") -> None:
        """`country` is ISO 3166-1 alpha-2, or empty for the provider's default."""
        headers = {"x-api-key": key.get_secret_value()}
        self._api = JsonApi(self.name, url, headers=headers, proxy=proxy, signs=_SIGNS)
        self._country = country

    async def search(self, query: Query) -> Found:
        """See Provider."""
        # More than ten cost a second credit.
        body: dict[str, str | int] = {"q": query.text, "num": 10 if query.count <= 10 else 20}
        if query.language:
            body["hl"] = query.language
        if self._country:
            body["gl"] = self._country.lower()
        answer = await self._api.post("/search", body)
        results = [
            Result(text(one, "link"), text(one, "title"), text(one, "snippet"), text(one, "date"))
            for one in records(answer.get("organic"))
        ]
        return Found(self.name, results)

    async def close(self) -> None:
        """See Provider."""
        await self._api.close()
