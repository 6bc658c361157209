"""Finds a real Chromium for the tests, or installs one: Debian's where we are root, Playwright's own elsewhere."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find() -> str | None:
    """Path of an installed browser; None means that Playwright's own is to be used."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)


def main() -> None:
    """Makes sure that there is a browser; says what to do when none can be had."""
    if find() or _playwright_has_one():
        return
    print("• installing a browser for the tests")
    if os.geteuid() == 0 and shutil.which("apt-get"):
        _apt("update")
        done = _apt("install", "--no-install-recommends", "chromium")
        if done.returncode == 0 and find():
            return
    if subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=False).returncode == 0:
        return
    raise SystemExit(
        "The browser test needs Chromium. Install it (Debian: apt-get install chromium), or set CHROMIUM=/path."
    )


def _apt(*words: str) -> subprocess.CompletedProcess[bytes]:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(["apt-get", "-y", "-qq", *words], check=False, stdout=subprocess.DEVNULL, env=environment)


def _playwright_has_one() -> bool:
    folder = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH", Path.home() / ".cache/ms-playwright"))
    return any(folder.glob("chromium-*"))


if __name__ == "__main__":
    main()
