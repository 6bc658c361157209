"""The report in a real browser: wide and narrow, light and dark, with the rules of axe-core."""

from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from services.evaluation.golden import sets
from services.evaluation.report.view import view_of
from services.evaluation.report.write import write
from services.evaluation.runs import command
from services.evaluation.runs.command import JudgeChoice, Wanted
from services.evaluation.runs.gateway_asker import Stack
from tests.e2e.test_page_accessibility import SIDEWAYS, violations
from tests.unit.evaluation.runs.gateway_server import KEY, GatewayServer, listening
from tests.unit.evaluation.runs.test_whole_run import answer
from tests.unit.evaluation.runs.world import ITEMS, golden

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]


@asynccontextmanager
async def opened(browser, path, **options):
    page = await browser.new_page(**options)
    complaints = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("request", lambda request: request.url.startswith("file:") or complaints.append(request.url))
    await page.goto(path.as_uri())
    yield page
    assert complaints == []
    await page.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    sets.write_about(folder / "small", golden().about)
    sets.write_half(folder / "small", "dev", ITEMS)
    async with listening(GatewayServer(answer)) as url:
        wanted = Wanted(folder / "small", folder / "run", Stack(url, KEY), judge=JudgeChoice("lexical"), noise=1)
        finished = await command.run(wanted)
    return write(view_of(finished), folder / "run")[0]


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_report_can_be_read_on_a_phone_and_on_a_screen(chromium, report, scheme):
    for width in (390, 1200):
        size = {"width": width, "height": 844}
        async with opened(chromium, report, viewport=size, color_scheme=scheme) as page:
            assert not await page.evaluate(SIDEWAYS)
            assert await page.locator("svg text").count() > 10
            if width < 1200:
                assert await violations(page) == []
