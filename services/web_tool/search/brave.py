"""Brave Search: an index of its own. https://api-dashboard.search.brave.com/api-reference/web/search/get

GET /res/v1/web/search, key in `X-Subscription-Token`; 422 for a wrong key (SUBSCRIPTION_TOKEN_INVALID) or parameter
(VALIDATION), 429 with `X-RateLimit-Remaining` and `X-RateLimit-Reset`, one number a window.
"""

from pydantic import SecretStr

from services.web_tool.search.json_api import JsonApi, record, records, text
from services.web_tool.search.provider import Cause, Found, Query, Result

_MAX_WORDS, _MAX_COUNT = 50, 20
# `search_lang` takes no others, and a wrong one is a 422.
_LANGUAGES = dict.fromkeys(
    "ar eu bn bg ca hr cs da nl en et fi fr gl de el gu he hi hu is it kn ko lv lt ms ml mr nb pl pa ro ru sr sk sl es "
    "sv ta te th tr uk vi".split()
)
_RENAMED = {"zh": "zh-hans", "pt": "pt-pt", "ja": "jp", "no": "nb"}
_SIGNS = {"SUBSCRIPTION_TOKEN_INVALID": Cause.CONFIGURATION, "RATE_LIMITED": Cause.QUOTA, "QUOTA_LIMITED": Cause.QUOTA}


class Brave:
    """Brave's web search."""

    name = "brave"

    def __init__(self, url: str, key: SecretStr, *, country: str = "", proxy: str = "") -> None:
        """`country` is ISO 3166-1 alpha-2, or empty for the provider's default."""
        headers = {"x-subscription-token": key.get_secret_value()}
        self._api = JsonApi(self.name, url, headers=headers, proxy=proxy, signs=_SIGNS)
        self._country = country

    async def search(self, query: Query) -> Found:
        """See Provider."""
        params = {
            "q": " ".join(query.text.split()[:_MAX_WORDS]),
            "count": str(min(query.count, _MAX_COUNT)),
            "result_filter": "web",
            "text_decorations": "false",
        }
        language = _RENAMED.get(query.language, query.language)
        if language in _LANGUAGES or query.language in _RENAMED:
            params["search_lang"] = language
        if self._country:
            params["country"] = self._country
        answer = await self._api.get("/res/v1/web/search", params)
        results = [
            Result(text(one, "url"), text(one, "title"), text(one, "description"), text(one, "page_age", "age"))
            for one in records(record(answer.get("web")).get("results"))
        ]
        return Found(self.name, results)

    async def close(self) -> None:
        """See Provider."""
        await self._api.close()
