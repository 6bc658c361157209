"""The report of a load test in a real browser: wide and narrow, light and dark, with the rules of axe-core."""

import pytest
import pytest_asyncio

from loadtests.report.__main__ import main
from tests.e2e.test_evals_report import opened
from tests.e2e.test_page_accessibility import SIDEWAYS, violations
from tests.unit.loadtests.report.runs import many, sample, soaked, written

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("load")
    answers, slower = ([one for one in many(2, of) if one["scenario"] == "naive RAG"] for of in (1.0, 1.4))
    bad = [
        sample("with web search", 3.2, problem="copper: " + "x" * 300),
        sample(due=9.1, refused=True, tenant="noisy"),
    ]
    first = written(folder / "a", [*answers, *bad], watched=soaked(), scenarios=[])
    second = written(folder / "b", slower, scenarios=[])
    assert main([str(first)]) == main([str(first), str(second)]) == 0
    return first / "report.html", second / "comparison.html"


@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 390), ("light", 1200)])
async def test_both_pages_can_be_read_on_a_phone_and_on_a_screen(chromium, pages, scheme, width):
    for path in pages:
        async with opened(chromium, path, viewport={"width": width, "height": 844}, color_scheme=scheme) as page:
            assert not await page.evaluate(SIDEWAYS)
            assert await page.locator("svg text").count() > 10
            if width < 1200:
                assert await violations(page) == []
