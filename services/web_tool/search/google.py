"""Google Programmable Search. https://developers.google.com/custom-search/v1/reference/rest/v1/cse/list

GET /customsearch/v1; the key goes into `X-Goog-Api-Key` (https://docs.cloud.google.com/apis/docs/system-parameters) and
not into the URL as usual. 400 API_KEY_INVALID; 403 or 429 for quotas. Google takes no new customers for it and has said
that searching the whole web with it ends on 1 January 2027.
"""

from typing import Any

from pydantic import SecretStr

from services.web_tool.search.json_api import JsonApi, record, records, text
from services.web_tool.search.provider import Cause, Found, Query, Result

_MAX_COUNT = 10
_SIGNS = {
    "API_KEY_INVALID": Cause.CONFIGURATION,
    "API key not valid": Cause.CONFIGURATION,
    "API key expired": Cause.CONFIGURATION,
    "LimitExceeded": Cause.QUOTA,
    "quotaExceeded": Cause.QUOTA,
    "RESOURCE_EXHAUSTED": Cause.QUOTA,
}
# `lr` restricts to a language, and takes these.
_LANGUAGES = dict.fromkeys(
    "ar bg ca cs da de el en es et fi fr hr hu id is it iw ja ko lt lv nl no pl pt ro ru sk sl sr sv tr".split()
)
_DATES = ("article:published_time", "og:published_time", "datepublished", "article:modified_time", "dc.date", "date")


class Google:
    """Google's Custom Search JSON API with a search engine of ours."""

    name = "google"

    def __init__(self, url: str, key: SecretStr, engine_id: str, *, country: str = "", proxy: str = "") -> None:
        """`engine_id` is the `cx` of the control panel; `country` is ISO 3166-1 alpha-2, or empty."""
        headers = {"x-goog-api-key": key.get_secret_value()}
        self._api = JsonApi(self.name, url, headers=headers, proxy=proxy, signs=_SIGNS)
        self._engine_id = engine_id
        self._country = country

    async def search(self, query: Query) -> Found:
        """See Provider. At most ten results."""
        params = {"cx": self._engine_id, "q": query.text, "num": str(min(query.count, _MAX_COUNT))}
        if query.language:
            params["hl"] = query.language
        if query.language in _LANGUAGES:
            params["lr"] = f"lang_{query.language}"
        if self._country:
            params["gl"] = self._country.lower()
        answer = await self._api.get("/customsearch/v1", params)
        results = [
            Result(text(one, "link"), text(one, "title"), text(one, "snippet"), _published(one))
            for one in records(answer.get("items"))
        ]
        return Found(self.name, results)

    async def close(self) -> None:
        """See Provider."""
        await self._api.close()


def _published(item: dict[str, Any]) -> str:
    tags = records(record(item.get("pagemap")).get("metatags"))
    return next((date for tag in tags if (date := text(tag, *_DATES))), "")
