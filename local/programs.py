"""Which processes run on one machine, with which settings: writes supervisord's configuration."""

import json
import os
import secrets
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from demo import tenants
from local import ports, postgres, valkey

HOME = Path(os.environ.get("SABUESO_HOME", ".sabueso")).resolve()
# Marks our processes in their environment, so that what a killed run left behind is found and nothing else is touched.
MARK = "_SABUESO_STACK"
GRPC_SERVICES = (
    "embedding", "reranking", "retrieval", "ingestion", "sql_tool", "web_tool", "tool_cache", "evaluation",
    "orchestrator",
)  # fmt: skip
# What each service calls, as in the chart's `calls:`.
CALLS: dict[str, tuple[str, ...]] = {
    "reranking": ("embedding",),
    "retrieval": ("embedding", "reranking"),
    "ingestion": ("embedding", "retrieval", "tool_cache"),
    "sql_tool": ("tool_cache",),
    "tool_cache": ("embedding",),
    "evaluation": ("embedding",),
    "orchestrator": ("retrieval", "sql_tool", "web_tool", "tool_cache", "embedding", "evaluation"),
    "gateway": ("orchestrator", "retrieval", "ingestion", "embedding", "reranking", "web_tool", "tool_cache"),
}


@dataclass(frozen=True)
class Options:
    """What a person may choose on the command line of make."""

    port: int = 8080
    host: str = "127.0.0.1"
    profile: str = "instant"
    model_url: str = ""
    model_name: str = ""
    model_api_key: str = ""
    # Ports of proxies that callers are given in place of a process' own: `make chaos` breaks what flows through them.
    doors: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True)
class Plan:
    """Where everything listens in this run."""

    options: Options
    ports: dict[str, int]
    metrics_ports: dict[str, int]

    def address(self, service: str) -> str:
        """host:port at which a process listens."""
        return f"127.0.0.1:{self.ports[service]}"

    def door(self, service: str) -> str:
        """host:port at which the other processes find it."""
        return f"127.0.0.1:{self.options.doors.get(service) or self.ports[service]}"

    @property
    def url(self) -> str:
        """Where people and clients find the gateway."""
        host = "127.0.0.1" if self.options.host in ("0.0.0.0", "::") else self.options.host
        return f"http://{host}:{self.options.port}"


def plan(options: Options) -> Plan:
    """Finds a free port for everything but the gateway, whose port a person chose."""
    names = ["postgres", "valkey", "understudy", "web_fixture", *GRPC_SERVICES]
    # From a random place, so that two stacks that start at the same time do not reach for the same ports.
    found = ports.pick(len(names) + len(GRPC_SERVICES), ports.random_start())
    listening = dict(zip(names, found, strict=False))
    return Plan(options, listening, dict(zip(GRPC_SERVICES, found[len(names) :], strict=True)))


def write(plan: Plan, cluster: postgres.Cluster) -> None:
    """Makes the folders, the tenants' files and supervisord's configuration, and begins new logs."""
    for folder in ("logs", "valkey", "tenants", "secrets", "gateway-keys", "spool", "vectors", "evals"):
        (HOME / folder).mkdir(exist_ok=True)
    for old in (HOME / "logs").glob("*.log"):
        old.unlink()
    for folder in ("secrets", "gateway-keys"):
        (HOME / folder).chmod(0o700)
    tenants.write_tenants(HOME / "tenants", keys())
    for tenant, key in keys().items():
        (HOME / "gateway-keys" / f"{tenant}.key").write_text(key)
    (HOME / "plan.json").write_text(json.dumps({"ports": plan.ports, "options": asdict(plan.options)}))
    programs = [
        _program("postgres", cluster.command, {}, 10, user=cluster.user, stop="INT"),
        _program("valkey", valkey.command(HOME / "valkey", plan.ports["valkey"]), {}, 10),
        _program("web_fixture", [*_python("demo.web_fixture"), "--port", str(plan.ports["web_fixture"])], {}, 20),
        *(
            _program(name, _python(f"services.{name}.server"), environment, 20)
            for name, environment in _services(plan, cluster)
        ),
    ]
    conf = HOME / "supervisord.conf"
    conf.touch(mode=0o600)
    conf.write_text(_SUPERVISOR.format(home=HOME, environment=_environment({MARK: str(HOME)})) + "\n".join(programs))


def _services(plan: Plan, cluster: postgres.Cluster) -> list[tuple[str, dict[str, str]]]:
    """Each service with its environment: all of its settings, nothing of ours."""
    own = _own_settings(plan, cluster)
    services: list[tuple[str, dict[str, str]]] = []
    for name in GRPC_SERVICES:
        settings = {
            "HOST": "127.0.0.1",
            "PORT": str(plan.ports[name]),
            "METRICS_PORT": str(plan.metrics_ports[name]),
            "SHUTDOWN_GRACE_SECONDS": "5",
            "IDENTITY_SECRET": identity_secret(),
        }
        services.append((name, settings | own.get(name, {})))
    services.append(("gateway", own["gateway"]))
    if not plan.options.model_url:
        services.append(("understudy", own["understudy"]))
    for name, settings in services:
        settings.update({f"{called.upper()}_ADDRESS": plan.door(called) for called in CALLS.get(name, ())})
    # As in the image: what numpy computes here is small, and threads of its own only get in each other's way.
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return [(name, threads | {f"SABUESO_{k}": v for k, v in settings.items()}) for name, settings in services]


def _own_settings(plan: Plan, cluster: postgres.Cluster) -> dict[str, dict[str, str]]:
    options = plan.options
    valkey_url = f"redis://{plan.door('valkey')}"
    model_url = options.model_url or f"http://{plan.door('understudy')}/v1"
    gateway_url = f"http://{plan.door('gateway')}" if "gateway" in options.doors else plan.url
    model_name = options.model_name or "meta-llama/Llama-3.1-70B-Instruct"
    tenants = {"TENANTS_DIR": str(HOME / "tenants")}
    fixture = f"127.0.0.1:{plan.ports['web_fixture']}"
    return {
        "embedding": {"EMBEDDING_MODEL": f"onnx:{HOME / 'models/multilingual-e5-small'}"},
        "retrieval": {"VECTOR_STORE": f"edge:{HOME / 'vectors'}"},
        "ingestion": tenants | {"VALKEY_URL": valkey_url, "SPOOL_DIR": str(HOME / "spool")},
        "sql_tool": tenants | {"SECRETS_DIR": str(HOME / "secrets")},
        "web_tool": tenants | {"SEARXNG_URL": f"http://{fixture}", "ALLOWED_PRIVATE_ADDRESSES": fixture},
        "tool_cache": {"VALKEY_URL": valkey_url},
        "evaluation": {
            "GOLDEN_DIR": str(Path("demo/evals").resolve()),
            "GATEWAY_URL": gateway_url,
            "GATEWAY_KEYS_DIR": str(HOME / "gateway-keys"),
            "RUNS_DIR": str(HOME / "evals"),
            "RESULTS_DSN": behind(plan, cluster).dsn(),
        },
        "orchestrator": tenants
        | {
            "MODEL_URL": f"{gateway_url}/v1",
            "MODEL_NAME": model_name,
            "VALKEY_URL": valkey_url,
            "SECRETS_DIR": str(HOME / "secrets"),
            # The understudy goes by a Llama's name, and calls several tools at once as no Llama does.
            "MODEL_PROFILE": "auto" if options.model_url else "openai",
        },
        "gateway": tenants
        | {
            "HOST": options.host,
            "PORT": str(options.port),
            "METRICS_PORT": "0",  # it has /metrics on its own port
            "IDENTITY_SECRET": identity_secret(),
            "VALKEY_URL": valkey_url,
            "MODEL_URL": model_url,
            "ADMIN_TENANT": "demo",
            "SHUTDOWN_GRACE_SECONDS": "5",
        }
        | ({"MODEL_API_KEY": options.model_api_key} if options.model_api_key else {}),
        "understudy": {
            "HOST": "127.0.0.1",
            "PORT": str(plan.ports["understudy"]),
            "LATENCY_PROFILE": options.profile,
            "MODEL_NAME": model_name,
        },
    }


def behind(plan: Plan, cluster: postgres.Cluster) -> postgres.Cluster:
    """The database as the services reach it."""
    return replace(cluster, port=plan.options.doors.get("postgres", cluster.port))


_SUPERVISOR = """\
[supervisord]
logfile={home}/logs/supervisord.log
logfile_maxbytes=1MB
pidfile={home}/supervisord.pid
childlogdir={home}/logs
environment={environment}

[unix_http_server]
file={home}/s.sock
chmod=0600

[supervisorctl]
serverurl=unix://{home}/s.sock

[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface

"""


def _program(
    name: str,
    command: list[str],
    environment: dict[str, str],
    priority: int,
    user: str | None = None,
    stop: str = "TERM",
) -> str:
    # Exit codes 69 and 78 say that a restart cannot help: a taken port, a wrong setting.
    lines = {
        "command": " ".join(shlex.quote(part).replace("%", "%%") for part in command),
        "directory": "/" if user else str(Path.cwd()),
        "environment": _environment(environment),
        "priority": str(priority),
        "stdout_logfile": str(HOME / "logs" / f"{name}.log"),
        "stdout_logfile_maxbytes": "5MB",
        "redirect_stderr": "true",
        "autorestart": "unexpected",
        "exitcodes": "69,78",
        "startsecs": "0",
        "startretries": "1000000",
        "stopsignal": stop,
        "stopwaitsecs": "8",
    }
    if user:
        lines["user"] = user
    return f"[program:{name}]\n" + "".join(f"{key}={value}\n" for key, value in lines.items())


def _environment(values: dict[str, str]) -> str:
    return ",".join(f'{key}="{value.replace("%", "%%")}"' for key, value in values.items())


def _python(module: str) -> list[str]:
    return [sys.executable, "-m", module]


def identity_secret() -> str:
    return _kept("identity-secret", lambda: secrets.token_urlsafe(48))


def keys() -> dict[str, str]:
    """API keys by tenant; made once, kept for later runs."""
    return json.loads(
        _kept(
            "keys.json",
            lambda: json.dumps({t: f"sk-sabueso-{t}-{secrets.token_urlsafe(24)}" for t in ("demo", "tiny", "other")}),
        )
    )


def _kept(name: str, make: Callable[[], str]) -> str:
    path = HOME / name
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(make())
    return path.read_text()
