"""The whole stack, as `make up` starts it, on ports and in a folder of its own; the page in a real browser."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import async_playwright, expect

from local import ports
from local.browser import find
from tests.e2e.scripted import site

# Nothing that a browser does on its own leaves this machine.
QUIET = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
# Chromium says so of every answer that is a refusal; those are what some tests are about.
_REFUSED = "Failed to load resource"
expect.set_options(timeout=30_000)


@dataclass(frozen=True)
class Stack:
    """A running stack. `env` is what `.sabueso/env` says."""

    home: Path
    env: dict[str, str]

    @property
    def url(self) -> str:
        return self.env["SABUESO_URL"]

    def control(self, *words: str) -> str:
        """supervisorctl, to stop and start single services."""
        tool = Path(sys.executable).with_name("supervisorctl")
        command = [str(tool), "-c", str(self.home / "supervisord.conf"), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    def pid(self, service: str) -> int:
        return int(self.control("pid", service))

    def log(self, service: str) -> str:
        return (self.home / "logs" / f"{service}.log").read_text(errors="replace")


def run_stack(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`python -m local.stack …`, as make calls it."""
    return subprocess.run(
        [sys.executable, "-m", "local.stack", *words],
        env=os.environ | {"SABUESO_HOME": str(home), "SABUESO_UP_SECONDS": "200"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def fresh_home(folder: Path) -> Path:
    """A folder like `.sabueso` on a new machine, but for the model, which set-up has made."""
    home = folder / "sabueso"
    home.mkdir()
    (home / "models").symlink_to(Path(".sabueso/models").resolve())
    return home


def read_env(home: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in (home / "env").read_text().splitlines())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever is first waits until a whole stack has started, which on a busy machine takes a while."""
    for item in items:
        if "stack" in getattr(item, "fixturenames", ()) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    home = fresh_home(tmp_path_factory.mktemp("stack"))
    port = ports.pick(1, ports.random_start())[0]
    try:
        started = run_stack(home, "up", "--detach", "--port", str(port))
        assert started.returncode == 0, started.stdout + started.stderr
        yield Stack(home, read_env(home))
    finally:  # also what has begun to start when its time is over
        stopped = run_stack(home, "down")
        shutil.rmtree(home, ignore_errors=True)
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def here(tmp_path_factory):
    """The page's gateway in this process, with a scripted agent behind it."""
    async with site(tmp_path_factory.mktemp("tenants")) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium():
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find(), args=QUIET)
        yield browser
        await browser.close()


class Watch:
    """Notes what a page should not do: complain, and ask anybody but its own gateway."""

    def __init__(self, url):
        self._url = url
        self.complaints = []
        self.foreign = []

    def over(self, page):
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._heard)
        page.on("request", lambda request: request.url.startswith(self._url) or self.foreign.append(request.url))

    def _heard(self, message):
        if message.type in ("error", "warning") and not message.text.startswith(_REFUSED):
            self.complaints.append(message.text)


async def opened(browser, watch, **options):
    context = await browser.new_context(**{"locale": "en-GB", "viewport": {"width": 1200, "height": 800}} | options)
    context.set_default_timeout(30_000)
    page = await context.new_page()
    watch.over(page)
    return page


@pytest_asyncio.fixture(loop_scope="module")
async def watch(here):
    watch = Watch(here.url)
    yield watch
    assert watch.complaints == [], "the page complained"
    assert watch.foreign == [], "the page asked somebody else"


@pytest_asyncio.fixture(loop_scope="module")
async def visit(chromium, here, watch):
    """`await visit(path, **options)` opens the page as a new person with a browser of that kind."""
    pages = []

    async def open_page(path="/", **options):
        pages.append(await opened(chromium, watch, **options))
        await pages[-1].goto(here.url + path)
        return pages[-1]

    yield open_page
    for page in pages:
        await page.context.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tab(chromium, here):
    return await opened(chromium, Watch(here.url))


@pytest_asyncio.fixture(loop_scope="module")
async def page(tab, here, watch):
    """The page with the key of the tenant `demo`, and nothing kept of the test before. One tab: its files are there."""
    watch.over(tab)
    await tab.unroute_all()
    await tab.goto(f"{here.url}/icon.svg")
    forget = """() => new Promise((resolve) => {
      localStorage.clear(); sessionStorage.clear();
      const request = indexedDB.deleteDatabase("sabueso");
      request.onsuccess = request.onerror = request.onblocked = () => resolve();
    })"""
    await tab.evaluate(forget)
    await tab.goto(f"{here.url}/#key={here.key()}")
    await expect(tab.locator("#app")).to_be_visible()
    return tab
