"""Judges URLs of anybody's corpus as the web tool would, without fetching: for `sabueso web check`."""

import json
import socket
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as LookupTimeout
from typing import Any, cast

from services.runtime.errors import NotFound, NotPermitted, ServiceError
from services.web_tool.fetch import MAX_REDIRECTS
from services.web_tool.policy import Policy, Target

_LOOKUP_SECONDS = 5
_UNRESOLVED = "allowed as far as can be told without looking up the name"


def check_lines(lines: Iterable[str], *, resolve: bool, policy: Policy | None = None) -> Iterator[dict[str, str]]:
    """For each line of JSON `{id, url}` one `{id, verdict, reason}`, `verdict` being `allow` or `reject`.

    A line may say what the world would: `addresses` (or `dns`), a list of what the name resolves to, and `redirects`, a
    list of where the page leads on to; both are then judged too. With `resolve`, other names are looked up.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            case: Any = json.loads(line)
        except (ValueError, RecursionError):
            case = None
        if not isinstance(case, dict):
            yield {"id": f"line {number}", "verdict": "reject", "reason": "the line is not a JSON object"}
            continue
        case = cast(dict[str, Any], case)
        verdict, reason = _judged(case, policy or Policy(), resolve=resolve)
        yield {"id": str(case.get("id", f"line {number}")), "verdict": verdict, "reason": reason}


def _judged(case: dict[str, Any], policy: Policy, *, resolve: bool) -> tuple[str, str]:
    url = case.get("url")
    if not isinstance(url, str):
        return "reject", "`url` is missing"
    try:
        target = policy.check_url(url)
        policy.check_egress(target)
        reason = _judge_addresses(target, policy, _listed(case, "addresses", "dns", "resolve"), resolve=resolve)
        seen = {target.url}
        for number, location in enumerate(_listed(case, "redirects") or (), 1):
            following = policy.check_url(target.redirected(location))
            if number > MAX_REDIRECTS or following.url in seen:
                raise NotPermitted("The page redirects too often, or in a circle.", rule="redirects")
            seen.add(following.url)
            if target.scheme == "https" and following.scheme == "http":
                raise NotPermitted("The page redirects from https to http.", rule="downgrade")
            target = following
            reason = _judge_addresses(target, policy, None, resolve=resolve) or reason
    except ServiceError as error:
        rule = error.metadata.get("rule") or error.metadata.get("field", "")
        return "reject", f"{rule}: {error.message}" if rule else error.message
    return "allow", reason


def _listed(case: dict[str, Any], *names: str) -> list[str] | None:
    """A list of texts under the first of the names that has one."""
    for name in names:
        if isinstance(value := case.get(name), list):
            return [str(one) for one in cast(list[Any], value)]
    return None


def _judge_addresses(target: Target, policy: Policy, given: list[str] | None, *, resolve: bool) -> str:
    """What remains unknown of the addresses of a host; raises what the guard would."""
    if given is not None:
        policy.check_addresses(target.host, target.port, given)
        return ""
    if policy.is_exception(target):
        return ""
    if not resolve:
        return "" if _is_address(target.host) else _UNRESOLVED
    policy.check_addresses(target.host, target.port, _looked_up(target))
    return ""


def _is_address(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()


def _looked_up(target: Target) -> Sequence[str]:
    """All addresses of the host. Raises NotFound."""
    pool = ThreadPoolExecutor(1)
    lookup = pool.submit(socket.getaddrinfo, target.host, target.port, type=socket.SOCK_STREAM)
    try:
        found = lookup.result(_LOOKUP_SECONDS)
    except (OSError, UnicodeError, LookupTimeout):
        raise NotFound(f"`{target.host}` cannot be looked up.") from None
    finally:
        pool.shutdown(wait=False)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
