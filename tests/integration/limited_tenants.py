"""Tenants with limits, for tests of the gateway: one a test, since what one uses up another would miss."""

import hashlib
import re

import yaml

_ITEM = re.compile(r'"([a-z-]+)"((?:;[a-z]+=(?:\d+|"[a-z-]+"))*)')


def write(folder, tenant, *, keys=None, **limits):
    """A tenant's file; returns nothing that tests need besides `key_of`."""
    unlimited = {"requests_per_minute": 0, "tokens_per_minute": 0, "concurrent_requests": 0}
    written = [
        {"id": name, "sha256": hashlib.sha256(key_of(tenant, name).encode()).hexdigest(), **options}
        for name, options in (keys or {"app": {}}).items()
    ]
    content = {"id": tenant, "keys": written, "limits": {**unlimited, **limits}}
    (folder / f"{tenant}.yaml").write_text(yaml.safe_dump(content))


def key_of(tenant, key="app"):
    return f"sk-limited-{tenant}-{key}"


def bearer(tenant, key="app"):
    return {"authorization": f"Bearer {key_of(tenant, key)}"}


def chat(text="hi", model="mini-1", **fields):
    return {"model": model, "messages": [{"role": "user", "content": text}], **fields}


def listed(header):
    """A structured field of items as {name: {parameter: value}}, in order. Fails when it is none."""
    found = {}
    for item in header.split(", "):
        matched = _ITEM.fullmatch(item)
        assert matched, item
        found[matched[1]] = {
            name: value.strip('"') if '"' in value else int(value)
            for name, value in (part.split("=") for part in matched[2].split(";")[1:])
        }
    return found


def code_of(response):
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return response.status_code, error["code"]


def check_headers(response, *, tokens=True, requests=True):
    """Every header of the limits is there, well-formed, and within its bounds. Returns the two lists."""
    policy, state = listed(response.headers["ratelimit-policy"]), listed(response.headers["ratelimit"])
    assert set(policy) == set(state)
    for name, values in state.items():
        assert 0 <= values["r"] <= policy[name]["q"]
    for kind, wanted in (("requests", requests), ("tokens", tokens)):
        if wanted:
            limit, remaining, reset = (
                response.headers[f"x-ratelimit-{part}-{kind}"] for part in ("limit", "remaining", "reset")
            )
            assert 0 <= int(remaining) <= int(limit)
            assert re.fullmatch(r"(\d+m)?\d+(\.\d+)?s|\d+ms", reset)
    if response.status_code == 429:
        assert int(response.headers["retry-after"]) >= 1
        assert next(iter(state.values()))["t"] == int(response.headers["retry-after"])
    return policy, state
