"""Runs inside the build of an image, as root: takes out of a Debian with Python what a running service does not need.

`services/Dockerfile` calls it with the Python of the base image, so it imports nothing but the standard library.
"""

import compileall
import importlib
import os
import py_compile
import shutil
import stat
import subprocess
import sys
import sysconfig
from pathlib import Path

# Package managers, what installs them, and tools of people at a terminal. Missing ones are no mistake: bases differ.
GONE = (
    "apt", "bash", "bsdutils", "debconf", "debian-archive-keyring", "debianutils", "diffutils", "dpkg", "e2fsprogs",
    "findutils", "gpgv", "grep", "gzip", "hostname", "init-system-helpers", "libapt-pkg6.0", "libapt-pkg7.0",
    "libaudit-common", "libaudit1", "libblkid1", "libcap-ng0", "libdebconfclient0", "libhogweed6t64",
    "liblastlog2-2", "libmount1", "libnettle8t64", "libpam-modules", "libpam-modules-bin", "libpam-runtime",
    "libpam0g", "libseccomp2", "libsemanage-common", "libsemanage2", "libsepol2", "libsmartcols1", "libudev1",
    "libxxhash0", "login", "login.defs", "logsave", "mawk", "mount", "ncurses-bin", "openssl", "passwd", "perl-base",
    "python3-pip", "python3-pip-whl", "python3-setuptools-whl", "python3-venv", "python3.11-venv", "python3.12-venv",
    "python3.13-venv", "sed", "sqv", "sysvinit-utils", "tar", "util-linux",
)  # fmt: skip
_LIBRARY_PARTS = ("ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "tkinter", "turtle.py", "turtledemo")
_INSTALLERS = ("pip", "setuptools", "wheel")
_FOLDERS = (
    "root", "tmp", "usr/include", "usr/local/include", "usr/local/share/man", "usr/share/bash-completion",
    "usr/share/info", "usr/share/lintian", "usr/share/locale", "usr/share/man", "usr/share/python-wheels", "var/cache",
    "var/lib/apt", "var/log",
)  # fmt: skip
_NO_USER = "nonroot:x:65532:65532:sabueso:/tmp:/usr/sbin/nologin\n"
_NO_GROUP = "nonroot:x:65532:\n"


def strip(root: Path, library: Path) -> None:
    """Strips the tree at `root`; `library` is Python's standard library in it. Licences (`copyright`) stay."""
    _drop_packages(root)
    sites = (library / "site-packages", root / "usr/lib/python3/dist-packages")
    unwanted = [
        *(path for folder in _FOLDERS for path in (root / folder).glob("*")),
        *(path for path in root.glob("usr/share/doc/*/*") if path.name != "copyright"),
        *(library / name for name in _LIBRARY_PARTS),
        *library.glob("config-*"),
        *(site / name for site in sites for name in _INSTALLERS),
        *(path for site in sites for name in _INSTALLERS for path in site.glob(f"{name}-*.dist-info")),
        *(path for path in root.glob("usr/local/bin/*") if _is_tool(path.name)),
    ]
    for path in unwanted:
        _remove(path)
    _drop_rights(root)


def _is_tool(name: str) -> bool:
    return name.startswith(("pip", "idle", "pydoc", "wheel")) or name.endswith("-config")


def _drop_packages(root: Path) -> None:
    """Removes the files of Debian packages, and their entries in the list that scanners of images read."""
    entries = (root / "var/lib/dpkg/status").read_text().strip().split("\n\n")
    names = {entry: entry.split("\n", 1)[0].removeprefix("Package: ") for entry in entries}
    lists = root / "var/lib/dpkg/info"
    kept = _files(lists, [name for name in names.values() if name not in GONE])
    for path in sorted(_files(lists, [name for name in names.values() if name in GONE]) - kept):
        found = root / path.lstrip("/")
        if found.is_symlink() or found.is_file():
            found.unlink()
    (root / "var/lib/dpkg/status").write_text("\n\n".join(e for e in entries if names[e] not in GONE) + "\n")
    for path in lists.iterdir():
        if path.name.split(":")[0].rpartition(".")[0] in GONE or not path.name.endswith((".list", ".md5sums")):
            path.unlink()


def _files(lists: Path, names: list[str]) -> set[str]:
    found = {name: [*lists.glob(f"{name}.list"), *lists.glob(f"{name}:*.list")] for name in names}
    return {line for paths in found.values() for path in paths for line in path.read_text().splitlines()}


def _drop_rights(root: Path) -> None:
    """Nothing runs with rights that its caller does not have."""
    for folder, folders, names in os.walk(root):
        if Path(folder) == root:
            folders[:] = [name for name in folders if name not in ("proc", "sys", "dev", "run")]
        for name in names:
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
                path.chmod(stat.S_IMODE(mode) & ~(stat.S_ISUID | stat.S_ISGID))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def name_user(root: Path) -> None:
    """Libraries ask for the user's name and home; without an entry some fail."""
    for file, line in (("etc/passwd", _NO_USER), ("etc/group", _NO_GROUP)):
        path = root / file
        if line not in path.read_text():
            path.write_text(path.read_text() + line)


def compile_library(library: Path) -> None:
    """A read-only root cannot keep what Python compiles at a start. By hash: all times in an image are the same."""
    for old in library.rglob("*.pyc"):
        old.unlink()
    compileall.compile_dir(library, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)


def check(library: Path) -> None:
    """Imports every module in C of the standard library. Raises ImportError where a shared library is missing."""
    for path in sorted((library / "lib-dynload").glob("*.so")):
        name = path.name.split(".")[0]
        if not name.startswith(("_test", "_tkinter", "_xx", "xx", "_ctypes_test")):
            importlib.import_module(name)
    # Threads find C's unwinder when they end, and not before.
    subprocess.run(
        [sys.executable, "-c", "import ssl, sqlite3, zoneinfo; zoneinfo.ZoneInfo('Europe/Madrid')"], check=True
    )


def main() -> None:
    """Does it to `/`."""
    root, library = Path("/"), Path(sysconfig.get_path("stdlib"))
    python = Path("/usr/local/bin/python")
    if not python.exists():
        python.symlink_to(sys.executable)
    strip(root, library)
    name_user(root)
    compile_library(library)
    check(library)


if __name__ == "__main__":
    main()
