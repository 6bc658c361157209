"""Builds the images of the services on this machine: `python -m local.images build|base|sizes`."""

import argparse
import contextlib
import gzip
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from local import image_base, image_engine
from local.image_engine import Engine, NoEngine

SERVICES = (
    "gateway", "orchestrator", "retrieval", "ingestion", "embedding", "reranking", "sql_tool", "web_tool", "tool_cache",
    "evaluation", "understudy", "cli", "loadtests",
)  # fmt: skip
# Built only when asked for by name, as Ray is large (docs/ray.md): a service, and its groups besides its own.
RAY_IMAGES = {
    "embedding-ray": ("embedding", "ray"),
    "reranking-ray": ("reranking", "ray"),
    "bulk": ("cli", "ingestion embedding ray"),
}
REPOSITORY = "localhost/sabueso"
TAG = "dev"
_BUILD_SECONDS = 1800
# Where packages come from, and what may carry a password: a secret of the build, never a part of the image.
_MIRRORS = (
    "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL",
    "UV_EXTRA_INDEX_URL", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
)  # fmt: skip
_CERTIFICATES = "/run/secrets/certificates"


@dataclass(frozen=True)
class Recipe:
    """What may be chosen about a build; empty means the recipe's own default."""

    base: str = ""
    repository: str = REPOSITORY
    tag: str = TAG
    weights: str = ""
    platform: str = ""
    no_cache: bool = False
    arguments: tuple[str, ...] = ()


def image_of(service: str, repository: str = REPOSITORY, tag: str = TAG) -> str:
    """Name of a service's image, as the chart writes it."""
    return f"{repository}-{service.replace('_', '-')}:{tag}"


def build(engine: Engine, service: str, recipe: Recipe) -> str:
    """Builds one image and answers its name. Raises CalledProcessError; what failed is on stderr."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct") or "0"
    command = build_command(engine, service, recipe, _git("rev-parse", "HEAD"), epoch)
    environment = os.environ | ({"DOCKER_BUILDKIT": "1"} if engine.name == "docker" else {})
    with secrets(os.environ, index=_index()) as options:
        command[-1:-1] = options
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, timeout=_BUILD_SECONDS)
    return image_of(service, recipe.repository, recipe.tag)


def build_command(engine: Engine, service: str, recipe: Recipe, revision: str, epoch: str) -> list[str]:
    """The command without its secrets. All times in the image are `epoch`, in seconds since 1970."""
    base, groups = RAY_IMAGES.get(service, (service, ""))
    arguments = {
        "SERVICE": base,
        "EXTRA_GROUPS": groups,
        "BASE": recipe.base,
        "WEIGHTS": recipe.weights,
        "REVISION": revision,
        "VERSION": recipe.tag,
    }
    command = [*engine.command, "build", "--quiet", "--file", "services/Dockerfile", *engine.limits]
    command += ["--tag", image_of(service, recipe.repository, recipe.tag)]
    for key, value in arguments.items():
        command += ["--build-arg", f"{key}={value}"] if value else []
    for argument in recipe.arguments:
        command += ["--build-arg", argument]
    command += ["--platform", recipe.platform] if recipe.platform else []
    command += ["--no-cache"] if recipe.no_cache else []
    if engine.name == "podman":
        command += ["--layers", "--timestamp", epoch, "--network", "host"]
    else:
        command += ["--build-arg", f"SOURCE_DATE_EPOCH={epoch}"]
    return [*command, "."]


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], check=False, capture_output=True, text=True)
    return done.stdout.strip()


@contextlib.contextmanager
def secrets(environment: Mapping[str, str], *, index: str) -> Generator[list[str]]:
    """Options that hand this machine's mirrors and certificates to the build, for as long as it runs.

    `index` is the address of the package index in pip's settings, which uv does not read; empty for none.
    """
    mirrors = {"PIP_INDEX_URL": index, "UV_DEFAULT_INDEX": index} if index else {}
    mirrors |= {name: environment[name] for name in _MIRRORS if environment.get(name)}
    certificates = environment.get("SSL_CERT_FILE", "")
    if certificates:
        mirrors |= dict.fromkeys(("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE"), _CERTIFICATES)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "mirrors")
        path.touch(mode=0o600)
        path.write_text("".join(f"{name}={shlex.quote(value)}\n" for name, value in mirrors.items()))
        options = ["--secret", f"id=mirrors,src={path}"]
        yield options + (["--secret", f"id=certificates,src={certificates}"] if certificates else [])


def _index() -> str:
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def size(engine: Engine, name: str) -> tuple[int, int]:
    """Bytes of an image, unpacked and as a registry sends it (gzip). Takes some seconds."""
    unpacked = int(engine.call("image", "inspect", "--format", "{{.Size}}", name))
    packed = 0
    with subprocess.Popen([*engine.command, "save", name], stdout=subprocess.PIPE) as process, _Counter() as counter:
        assert process.stdout is not None
        with gzip.GzipFile(fileobj=counter, mode="wb", compresslevel=6) as file:  # pyright: ignore[reportArgumentType]
            while part := process.stdout.read(1 << 20):
                file.write(part)
        packed = counter.count
    return unpacked, packed


class _Counter:
    """A file that keeps nothing but its length."""

    count = 0

    def __enter__(self) -> "_Counter":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def write(self, content: bytes) -> int:
        self.count += len(content)
        return len(content)

    def flush(self) -> None:
        pass


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line; exit status 1 when something is missing or a build fails."""
    parser = argparse.ArgumentParser(prog="python -m local.images", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="some images, or those of all services")
    building.add_argument("services", nargs="*", metavar="IMAGE", help=", ".join((*SERVICES, *RAY_IMAGES)))
    building.add_argument("--base", default="", help="image with Debian and Python; default: that of the recipe")
    building.add_argument("--weights", default="", choices=("", "baked", "mounted"))
    building.add_argument("--platform", default="", help="such as linux/arm64")
    building.add_argument("--no-cache", action="store_true")
    building.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE", help="any other of the recipe")
    making = commands.add_parser("base", help="a base from Debian's packages, where no registry can be reached (root)")
    making.add_argument("--suite", default=image_base.SUITE)
    sizes = commands.add_parser("sizes", help="a table of what was built")
    for command in (building, sizes):
        command.add_argument("--repository", default=REPOSITORY)
        command.add_argument("--tag", default=TAG)
    chosen = parser.parse_args(arguments)
    try:
        _run(image_engine.find(), chosen)
    except NoEngine as error:
        raise SystemExit(str(error)) from None
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"{error.cmd[0]} failed with status {error.returncode}") from None


def _run(engine: Engine, chosen: argparse.Namespace) -> None:
    match chosen.command:
        case "base":
            print(image_base.make(engine, chosen.suite))
        case "build":
            known = (*SERVICES, *RAY_IMAGES)
            if unknown := sorted(set(chosen.services) - set(known)):
                raise SystemExit(f"there is no image for {', '.join(unknown)}; there are: {', '.join(known)}")
            recipe = Recipe(
                chosen.base, chosen.repository, chosen.tag, chosen.weights, chosen.platform, chosen.no_cache,
                tuple(chosen.arg),
            )  # fmt: skip
            for service in chosen.services or SERVICES:
                print(f"• {build(engine, service, recipe)}", flush=True)
        case _:
            print("| image | unpacked (MB) | sent (MB) |\n|---|---|---|")
            for service in SERVICES:
                unpacked, packed = size(engine, image_of(service, chosen.repository, chosen.tag))
                print(f"| {service} | {unpacked / 1e6:.0f} | {packed / 1e6:.0f} |", flush=True)


if __name__ == "__main__":
    main()
