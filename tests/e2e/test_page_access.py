"""The key, the limits, the language and the colours of the page."""

import pytest
from playwright.async_api import expect

from tests.e2e.test_page_answers import ask, ended

pytestmark = pytest.mark.asyncio(loop_scope="module")

STORED = "[sessionStorage.getItem('key'), localStorage.getItem('key')]"


async def enter(page, key):
    await page.get_by_label("API key").fill(key)
    await page.keyboard.press("Enter")


async def test_a_first_visitor_is_asked_for_a_key_and_told_when_it_is_wrong(visit, here):
    page = await visit()
    await expect(page.get_by_label("API key")).to_be_focused()
    await expect(page.get_by_role("tab")).to_have_count(0)
    await enter(page, "sk-wrong")
    await expect(page.get_by_role("alert").first).to_contain_text("This key is not accepted.")
    await expect(page.get_by_label("API key")).to_have_attribute("aria-invalid", "true")
    assert await page.evaluate(STORED) == [None, None]
    await enter(page, here.key())
    await expect(page.get_by_label("Your question")).to_be_focused()
    assert await page.evaluate(STORED) == [here.key(), None]


async def test_a_key_is_remembered_only_if_asked_and_can_be_forgotten(visit, here):
    page = await visit()
    await page.get_by_label("Remember it in this browser").check()
    await enter(page, here.key())
    await expect(page.locator("#app")).to_be_visible()
    assert await page.evaluate(STORED) == [None, here.key()]
    await ended(await ask(page, "kept"))
    other = await page.context.new_page()
    await other.goto(here.url)
    await expect(other.locator("#app")).to_be_visible()
    await other.close()
    await page.get_by_role("tab", name="Limits").click()
    await page.get_by_role("button", name="Forget the key").click()
    await page.get_by_label("Delete the conversations too").check()
    await page.get_by_role("dialog").get_by_role("button", name="Forget the key").click()
    await expect(page.get_by_label("API key")).to_be_focused()
    assert await page.evaluate(STORED) == [None, None]
    await enter(page, here.key())
    await expect(page.locator("#conversations")).to_contain_text("None yet.")


async def test_a_key_behind_the_address_is_taken_and_wiped_off(visit, here):
    page = await visit(f"/#key={here.key()}")
    await expect(page.locator("#app")).to_be_visible()
    assert "key" not in page.url


async def test_a_key_that_is_revoked_meanwhile_is_asked_for_anew_and_nothing_is_lost(page, here):
    await page.route("**/v1/chat/completions", lambda route: route.fulfill(status=401, body="{}"))
    await page.get_by_label("Your question").fill("what now?")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert").first).to_contain_text("This key is not accepted.")
    await page.unroute("**/v1/chat/completions")
    await enter(page, here.key())
    await expect(page.locator(".turn .question")).to_contain_text("what now?")
    await expect(page.get_by_label("Your question")).to_be_focused()


async def test_a_server_that_is_away_does_not_hide_the_conversations(page, here):
    await ended(await ask(page, "kept here"))
    await page.route("**/v1/usage", lambda route: route.abort())
    await page.reload()
    await expect(page.locator(".turn .question")).to_contain_text("kept here")


async def test_limits_are_meters_with_what_is_used_and_when_it_is_back(page, here):
    meter = '{"limit": %d, "used": %d, "remaining": 0, "reset_seconds": %d}'
    none = '{"limit": null, "used": null, "remaining": null, "reset_seconds": null}'
    usage = (
        '{"tenant": "demo", "key": "all", "scopes": ["agent", "search"], "limits": {"body_bytes": 20971520},'
        f'"requests_per_minute": {meter % (600, 570, 57)}, "tokens_per_minute": {meter % (400000, 100000, 15)},'
        f'"daily_tokens": {none}, "concurrent_requests": {meter % (32, 3, 0)},'
        f'"key_limits": {{"requests_per_minute": {meter % (60, 6, 6)}, "daily_tokens": {none}}},'
        f'"models": {{"big-1": {{"tokens_per_minute": {meter % (1000, 10, 1)}}}, "mini": {{}}}}}}'
    )
    await page.route("**/v1/usage", lambda route: route.fulfill(body=usage, content_type="application/json"))
    await page.get_by_role("tab", name="Limits").click()
    tenant = page.locator("#meters section").first
    await expect(tenant.get_by_role("meter", name="Requests a minute")).to_have_attribute(
        "aria-valuetext", "570 of 600"
    )
    await expect(tenant).to_contain_text("100,000 of 400,000")
    await expect(tenant).to_contain_text("Tokens a dayunlimited")
    await expect(tenant).to_contain_text("Size of a request20 MB")
    await expect(tenant.locator(".meter").first).to_contain_text("all free again in")
    await expect(page.locator("#meters h2")).to_have_text(
        ["Limits of the tenant", "Limits of this key", "Limits of the model big-1"]
    )
    await expect(page.locator("#account")).to_contain_text("in this tab, until it is closed")


async def test_limits_come_from_the_gateway(page, here):
    await page.get_by_role("tab", name="Limits").click()
    await expect(page.locator("#meters .meter").first).to_contain_text("of 60,000")
    await expect(page.locator("#account")).to_contain_text("demo")


async def test_the_language_is_that_of_the_browser_until_another_is_chosen(visit, here):
    page = await visit(f"/#key={here.key()}", locale="es-ES")
    await expect(page.locator("html")).to_have_attribute("lang", "es")
    await expect(page.get_by_role("tab").first).to_have_text("Preguntar")
    await page.get_by_label("Tu pregunta").fill("hola")
    await page.keyboard.press("Enter")
    await expect(page.locator(".actions .facts")).to_have_text("0,43s · 1234 tokens")
    await page.get_by_role("button", name="English").click()
    await expect(page.locator("html")).to_have_attribute("lang", "en")
    await expect(page.locator(".actions .facts")).to_have_text("0.43s · 1,234 tokens")
    await page.reload()
    await expect(page.get_by_role("tab").first).to_have_text("Ask")


async def test_colours_are_those_of_the_system_until_others_are_chosen(visit, here):
    page = await visit(color_scheme="dark")
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = await page.evaluate(paper)
    await page.get_by_role("button", name="Colours: as the system").click()
    await expect(page.get_by_role("button", name="Colours: light")).to_be_visible()
    assert await page.evaluate(paper) != dark
    await page.reload()
    assert await page.evaluate(paper) != dark
    await page.get_by_role("button", name="Colours: light").click()
    assert await page.evaluate(paper) == dark
