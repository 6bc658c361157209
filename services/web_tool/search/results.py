"""Makes one clean list of what a provider found: one entry a page, dated, readable, allowed."""

import html
import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from urllib.parse import parse_qsl, urlsplit

from services.runtime.errors import NotPermitted, ServiceError
from services.web_tool.invisible import cleaned, defused
from services.web_tool.policy import Policy
from services.web_tool.search.dates import iso_date
from services.web_tool.search.provider import Result

log = logging.getLogger(__name__)
_MAX_TITLE_CHARS, _MAX_SNIPPET_CHARS = 300, 2000
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,500}>|<!--.{0,500}?-->", re.DOTALL)
_MAX_FIELDS = 200
# Parameters that say where a reader came from, and not which page it is.
_TRACKING = re.compile(
    r"utm_\w+|(?:g|fb|d|y|tw)clid|msclkid|[gw]braid|mc_[ce]id|igshid|_ga|_gl|_hs(?:enc|mi)|mkt_tok|vero_id|oly_\w+_id|"
    r"srsltid|ref_src|ref_url|amp|outputtype|cmpid|wt\.mc_id|s_kwcid"
)


def tidy(results: Sequence[Result], policy: Policy, count: int, today: date) -> list[Result]:
    """The first `count` different pages that the policy lets us name, dated in ISO 8601, without markup."""
    kept: dict[str, Result] = {}
    for result in results[: 3 * count + 10]:  # SearXNG gives as many as it likes
        url = _permitted(result.url, policy)
        if url is None:
            continue
        snippet = plain_text(result.snippet, _MAX_SNIPPET_CHARS)
        entry = Result(url, plain_text(result.title, _MAX_TITLE_CHARS), snippet, iso_date(result.published, today))
        page = canonical(url)
        if page in kept:
            first = kept[page]
            entry = replace(first, snippet=first.snippet or entry.snippet, published=first.published or entry.published)
        kept[page] = entry
    return list(kept.values())[:count]


def canonical(url: str) -> str:
    """What is the same for all addresses of one page: no scheme, `www`, AMP, tracking, fragment, last slash."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    for prefix in ("www.", "amp."):
        host = host.removeprefix(prefix)
    port = "" if parts.port in (None, 80, 443) else f":{parts.port}"
    path = parts.path.rstrip("/").removesuffix("/amp").removesuffix(".amp")
    try:
        pairs = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError:
        pairs = [(parts.query, "")]
    query = sorted((name, value) for name, value in pairs if not _TRACKING.fullmatch(name.lower()))
    return f"{host}{port}{path.rstrip('/')}?{query}"


def plain_text(text: str, max_chars: int) -> str:
    """Text without tags, entities and invisible characters, on one line."""
    for _ in range(2):  # some engines escape their markup
        text = html.unescape(_TAG.sub(" ", text[: 8 * max_chars]))
    visible, _ = cleaned(text)
    visible, _ = defused(visible)
    line = " ".join(re.sub(r" +([.,;:!?)\]»”])", r"\1", " ".join(visible.split())).split())
    return line if len(line) <= max_chars else line[: max_chars - 1].rstrip() + "…"


def _permitted(url: str, policy: Policy) -> str | None:
    try:
        return policy.check_url(url).url
    except NotPermitted as refused:
        log.debug("a result was dropped", extra={"rule": refused.metadata.get("rule")})
    except ServiceError:
        log.debug("a result has no usable URL")
    return None
