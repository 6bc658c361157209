"""What is put under load: its address, a key for each kind of tenant, and its home folder where it runs here."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from loadtests.offering.plan import Tenant

# The first variable that is set counts. Those at the end are of the demo, in the file that `make up` writes.
KEYS: Mapping[Tenant, tuple[str, ...]] = {
    "main": ("SABUESO_API_KEY",),
    "second": ("SABUESO_LOAD_SECOND_API_KEY", "SABUESO_OTHER_API_KEY", "SABUESO_API_KEY"),
    "noisy": ("SABUESO_LOAD_NOISY_API_KEY", "SABUESO_TINY_API_KEY"),
}


class NoTarget(Exception):
    """Nothing to put under load was named; the message says how to."""


@dataclass(frozen=True)
class Target:
    """`keys`: a tenant that has none is not there. `home`: None where the processes are out of reach."""

    url: str
    keys: Mapping[Tenant, str]
    ca_file: str = ""
    home: Path | None = None


def target(environment: Mapping[str, str]) -> Target:
    """What the environment names, else the stack that runs in $SABUESO_HOME, or .sabueso. Raises NoTarget."""
    home = Path(environment.get("SABUESO_HOME", ".sabueso"))
    here = _env_file(home / "env")
    url = environment.get("SABUESO_URL") or here.get("SABUESO_URL", "")
    if not url:
        raise NoTarget("nothing runs here: start it with `make up DETACH=1`, or name another with SABUESO_URL")
    is_here = url == here.get("SABUESO_URL")
    # The keys in the file are of the stack that it is about.
    known = {**here, **environment} if is_here else environment
    keys: dict[Tenant, str] = {}
    for tenant, names in KEYS.items():
        if key := next((known[name] for name in names if known.get(name)), ""):
            keys[tenant] = key
    return Target(
        url=url.rstrip("/"),
        keys=keys,
        ca_file=environment.get("SABUESO_CA_FILE", ""),
        home=home if is_here else None,
    )


def _env_file(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return dict(line.split("=", 1) for line in lines if "=" in line)
