"""Starts, watches and stops everything on one machine: `python -m local.stack up|down|status|logs`.

supervisord runs the processes and restarts those that die; this file waits until they serve, and loads the demo.
"""

import argparse
import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path

import psutil

from local import loading, ports, postgres, programs
from local.programs import GRPC_SERVICES, HOME, MARK, Options, Plan
from local.supervisor import Supervisor
from services.runtime.identity import Signer

BIN = Path(sys.executable).parent
# For all of them; SABUESO_UP_SECONDS=300 on a machine that is busy with other things.
_START_SECONDS = float(os.environ.get("SABUESO_UP_SECONDS", "90"))
_supervisor = Supervisor(HOME)
_QUESTION = "¿Qué dice la política de viajes sobre el alojamiento?"


class Refused(Exception):
    """The stack cannot start; the message says why and what to do."""


def main() -> None:
    """Command line; exit status 1 when refused, with the reason on stderr."""
    parser = argparse.ArgumentParser(prog="python -m local.stack", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start, wait until all serve, load the demo")
    up.add_argument("--detach", action="store_true", help="leave it running")
    up.add_argument("--port", type=int, default=8080)
    up.add_argument("--host", default="127.0.0.1")
    up.add_argument("--profile", default="instant", choices=("instant", "h100-tp4", "h100-tp2"))
    up.add_argument("--model-url", default="")
    up.add_argument("--model-name", default="")
    up.add_argument("--doors", type=json.loads, default={}, help="JSON: ports that callers of a process are given")
    commands.add_parser("down", help="stop everything")
    commands.add_parser("status", help="what runs")
    logs = commands.add_parser("logs", help="follow the log of one service, or of all")
    logs.add_argument("service", nargs="?", default="")
    arguments = parser.parse_args()
    try:
        match arguments.command:
            case "up":
                options = Options(
                    arguments.port, arguments.host, arguments.profile, arguments.model_url, arguments.model_name,
                    os.environ.get("MODEL_API_KEY", ""), arguments.doors,
                )  # fmt: skip
                start(options, detach=arguments.detach)
            case "down":
                print("• stopped" if stop() else "• nothing was running")
            case "status":
                raise SystemExit(show_status())
            case _:
                follow_logs(arguments.service)
    except (Refused, loading.NotUp) as error:
        print(f"\n{error}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def start(options: Options, *, detach: bool) -> None:
    """The whole of `make up`. Raises Refused; whatever was started by then is stopped again."""
    HOME.mkdir(parents=True, exist_ok=True)
    with _only_one():
        if _supervisor.pid() is not None:
            raise Refused(f"sabueso is already running ({_read_env().get('SABUESO_URL', '?')}). `make down` ends it.")
        began = time.monotonic()
        _end_leftovers()
        if not ports.is_free(options.port, options.host):
            raise Refused(_who_has(options.port))
        plan = programs.plan(options)
        cluster = postgres.prepare(HOME / "postgres", plan.ports["postgres"])
        programs.write(plan, cluster)
        try:
            print("• starting PostgreSQL, Valkey and the services")
            _run([str(BIN / "supervisord"), "-c", str(HOME / "supervisord.conf")])
            asyncio.run(_bring_up(plan, cluster))
        except (Refused, loading.NotUp, subprocess.CalledProcessError, KeyboardInterrupt):
            stop()
            raise
    _say_hello(plan, time.monotonic() - began, detach)
    if not detach:
        _wait_for_the_end()


async def _bring_up(plan: Plan, cluster: postgres.Cluster) -> None:
    keys = programs.keys()
    signer = Signer(programs.identity_secret())
    await loading.wait_for_postgres(cluster, _raise_if_fatal)
    await loading.load_databases(programs.behind(plan, cluster), HOME, keys)
    addresses = {name: plan.address(name) for name in GRPC_SERVICES}
    urls = {"gateway": f"{plan.url}/readyz"}
    if not plan.options.model_url:
        urls["understudy"] = f"http://{plan.address('understudy')}/health"
    await loading.wait_for_services(addresses, urls, _START_SECONDS, _raise_if_fatal)
    _write_env(plan, keys, cluster)
    await loading.load_documents(addresses, signer, HOME)


def stop() -> bool:
    """Ends everything of this folder; True when something was running."""
    was_running = _supervisor.stop()
    return _end_leftovers() or was_running


def show_status() -> int:
    """Prints a line a process; 0 when all run, 3 when not."""
    programs = _supervisor.programs()
    if not programs:
        print("sabueso is not running. `make up` starts it.")
        return 3
    total = 0
    for program in programs:
        used = program.memory_bytes()
        total += used
        print(f"{program.name:<14} {program.state:<10} {program.description:<36} {used / 2**20:6.0f} MiB")
    print(f"{'total':<14} {_read_env().get('SABUESO_URL', ''):<47} {total / 2**20:6.0f} MiB")
    return 0 if all(program.state == "RUNNING" for program in programs) else 3


def follow_logs(service: str) -> None:
    """Shows the last lines of a service's log and follows it, until interrupted."""
    files = sorted((HOME / "logs").glob(f"{service or '*'}.log"))
    if not files:
        names = ", ".join(sorted(p.stem for p in (HOME / "logs").glob("*.log")))
        raise Refused(f"There is no log of `{service}`. There are: {names or 'none yet; run `make up`'}")
    with contextlib.suppress(KeyboardInterrupt):
        subprocess.run(["tail", "-n", "100", "-F", *map(str, files)], check=False)


@contextlib.contextmanager
def _only_one() -> Generator[None]:
    with (HOME / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused("Another `make up` is starting sabueso in this folder. Wait for it, or end it.") from None
        yield


def _who_has(port: int) -> str:
    who = ""
    with contextlib.suppress(psutil.Error):
        for connection in psutil.net_connections("inet"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
                who = f" by `{psutil.Process(connection.pid).name()}` (process {connection.pid})"
    free = next(other for other in (8080, *range(8081, 9000)) if ports.is_free(other))
    return f"Port {port} is taken{who}. Choose another: make up PORT={free}"


def _run(command: Sequence[str]) -> None:
    # Nothing of the caller's SABUESO_ variables reaches the services: each refuses what it does not know.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SABUESO_")}
    environment |= {MARK: str(HOME), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    subprocess.run(command, check=True, env=environment)


def _raise_if_fatal() -> None:
    """Raises Refused, with the last lines of its log, when a process has given up, or what runs them all has ended."""
    if _supervisor.has_ended():
        raise Refused(f"supervisord, which runs everything, was ended. Its log: {HOME / 'logs' / 'supervisord.log'}")
    for program in _supervisor.programs():
        if program.state in ("FATAL", "EXITED"):
            log = HOME / "logs" / f"{program.name}.log"
            last = "\n".join(log.read_text(errors="replace").splitlines()[-8:]) if log.exists() else ""
            raise Refused(f"{program.name} does not start. The end of its log ({log}):\n{last}")


def _ours() -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get(MARK) == str(HOME):
                found.append(process)
    return found


def _end_leftovers() -> bool:
    left = _ours()
    if left:
        print(f"• ending {len(left)} processes of an earlier run")
    for process in left:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, alive = psutil.wait_procs(left, timeout=8)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(alive, timeout=5)
    for stale in ("supervisord.pid", "s.sock"):
        (HOME / stale).unlink(missing_ok=True)
    return bool(left)


def _write_env(plan: Plan, keys: dict[str, str], cluster: postgres.Cluster) -> None:
    """Where everything is: for scripts, and for `sabueso backup`."""
    path = HOME / "env"
    path.touch(mode=0o600)
    path.write_text(
        f"SABUESO_URL={plan.url}\nSABUESO_API_KEY={keys['demo']}\n"
        f"SABUESO_TINY_API_KEY={keys['tiny']}\nSABUESO_OTHER_API_KEY={keys['other']}\n"
        f"SABUESO_TENANTS_DIR={HOME / 'tenants'}\nSABUESO_VECTOR_STORE=edge:{HOME / 'vectors'}\n"
        f"SABUESO_VALKEY_URL=redis://127.0.0.1:{plan.ports['valkey']}\nSABUESO_SPOOL_DIR={HOME / 'spool'}\n"
        f"SABUESO_RESULTS_DSN={cluster.dsn()}\n"
    )


def _read_env() -> dict[str, str]:
    path = HOME / "env"
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(line.split("=", 1) for line in lines if "=" in line)


def _say_hello(plan: Plan, seconds: float, detach: bool) -> None:
    key = programs.keys()["demo"]
    model = plan.options.model_url or f"the understudy, a rule-based stand-in (profile {plan.options.profile})"
    print(
        f"""
sabueso is up after {seconds:.0f} s.

  web page   {plan.url}/#key={key}
  API        {plan.url}/v1     (OpenAI's; model "sabueso")
  key        {key}
  model      {model}

Try one of these:

  make ask Q="How many contracts above 100k€ did we sign in 2025 with EU providers, and which special conditions recur?"

  curl -s {plan.url}/v1/chat/completions -H "Authorization: Bearer {key}" -H "Content-Type: application/json" \\
    -d '{{"model": "sabueso", "messages": [{{"role": "user", "content": "{_QUESTION}"}}]}}'

  scripts find URL and keys in {HOME.name}/env;  {"`make down` ends it" if detach else "Ctrl-C ends it"}
"""
    )


def _wait_for_the_end() -> None:
    try:
        while _supervisor.pid() is not None:
            time.sleep(0.5)
    except KeyboardInterrupt:
        pass
    print("\n• stopping")
    stop()


def clean() -> None:
    """Forgets all data of this folder's stack, the model excepted."""
    stop()
    for path in HOME.iterdir():
        if path.name != "models":
            shutil.rmtree(path) if path.is_dir() else path.unlink()


if __name__ == "__main__":
    main()
