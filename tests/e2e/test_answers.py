"""The flagship question through the whole stack, as client apps and people ask it."""

import re
import time

import httpx2
import pytest
from openai import OpenAI
from playwright.sync_api import expect, sync_playwright

from local.browser import find
from tests.e2e.conftest import QUIET

ES = (
    "¿Cuántos contratos de más de 100k€ firmamos en 2025 con proveedores de la UE, "
    "y qué condiciones especiales se repiten?"
)
EN = (
    "How many contracts above 100k€ did we sign in 2025 with EU providers, and which special conditions recur?"
)  # fmt: skip


def client(stack, key="SABUESO_API_KEY"):
    return OpenAI(base_url=f"{stack.url}/v1", api_key=stack.env[key], http_client=httpx2.Client(trust_env=False))


def ask(stack, question, **extras):
    with client(stack) as openai:
        return openai.chat.completions.create(
            model="sabueso", messages=[{"role": "user", "content": question}], extra_body={"sabueso": extras}
        )


def sources(message, kind):
    entries = [annotation.model_dump() for annotation in message.annotations]
    return [entry[kind] for entry in entries if entry["type"] == kind]


@pytest.mark.parametrize(
    ("question", "money", "penalty", "cpi"),
    [(ES, "8.300.000", "retraso", "IPC"), (EN, "8,300,000", "late", "CPI")],
    ids=["es", "en"],
)
def test_numbers_and_conditions_are_true_and_cited(stack, question, money, penalty, cpi):
    answer = ask(stack, question)
    message = answer.choices[0].message
    assert re.search(r"\b47\b", message.content)
    assert money in message.content
    for clause, word, figure in (("8.3", penalty, r"2\s?%"), ("7.1", cpi, r"4\s?%")):
        line = next(line for line in message.content.splitlines() if re.search(rf"{re.escape(clause)}\b", line))
        assert word.lower() in line.lower()
        assert re.search(figure, line)
        marks = {int(mark) for mark in re.findall(r"\[(\d+)\]", line)}
        quotes = [s["quote"] for s in sources(message, "file_citation") if s["index"] in marks]
        assert quotes, f"no source is cited for clause {clause}"
        assert any(clause in quote and re.search(figure, quote) for quote in quotes)
    (sql,) = sources(message, "sql_citation")
    assert "47" in str(sql["rows"])
    assert answer.usage.total_tokens > 0


def test_independent_tools_run_in_parallel(stack):
    steps = ask(stack, EN, cache="off", strategy="react").model_extra["sabueso"]["steps"]
    assert {call["tool"] for call in steps[0]["calls"]} == {"sql_query", "vector_search"}
    summary = ask(stack, EN, cache="off", strategy="react").model_extra["sabueso"]
    alone = sum(call["duration_ms"] for call in summary["steps"][0]["calls"])
    assert summary["timings_ms"]["tools"] < alone
    assert summary["finish"] == "answered"
    assert summary["degraded"] == []


def test_a_cited_document_can_be_opened(stack):
    answer = ask(stack, ES)
    source = sources(answer.choices[0].message, "file_citation")[0]
    headers = {"authorization": f"Bearer {stack.env['SABUESO_API_KEY']}"}
    opened = httpx2.get(stack.url + source["url"], headers=headers, trust_env=False).json()
    passage = next(p for p in opened["data"] if p["chunk_id"] == source["chunk_id"])
    assert source["quote"][:80] in passage["text"]


def test_a_stream_has_steps_then_text_then_sources(stack):
    with client(stack) as openai:
        stream = openai.chat.completions.create(
            model="sabueso",
            messages=[{"role": "user", "content": ES}],
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"sabueso": {"include_steps": True}},
        )
        chunks = list(stream)
    events = [
        c.model_extra["sabueso"]["step"]["event"] for c in chunks if "step" in (c.model_extra.get("sabueso") or {})
    ]
    assert events.count("tool_call_started") == events.count("tool_call_finished") == 2
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert "47" in text
    assert [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason] == ["stop"]
    assert chunks[-1].usage.total_tokens > 0


def test_what_is_not_there_is_not_invented(stack):
    answer = ask(stack, "¿Qué dice la política sobre mascotas exóticas en Marte?")
    assert answer.model_extra["sabueso"]["finish"] in ("refused", "answered", "partial")
    assert re.search(r"no (he|se) encontr|no encuentro", answer.choices[0].message.content, re.IGNORECASE)


def test_another_tenant_sees_none_of_it(stack):
    with client(stack, "SABUESO_OTHER_API_KEY") as other:
        answer = other.chat.completions.create(model="sabueso", messages=[{"role": "user", "content": EN}])
    text = answer.choices[0].message.content
    assert "8,300,000" not in text
    assert not re.search(r"CT-\d{4}-\d{4}", text + str(answer.choices[0].message.annotations))


def test_the_tiny_tenant_meets_its_limit_and_waiting_helps(stack):
    headers = {"authorization": f"Bearer {stack.env['SABUESO_TINY_API_KEY']}"}
    with httpx2.Client(base_url=stack.url, headers=headers, trust_env=False) as http:
        answers = [http.get("/v1/models") for _ in range(12)]
        refused = [a for a in answers if a.status_code == 429]
        assert refused
        assert refused[0].json()["error"]["code"]
        wait = int(refused[-1].headers["retry-after"])
        assert 1 <= wait <= 60
        time.sleep(wait)
        assert http.get("/v1/models").status_code == 200


# The page itself is tested in test_page_*.py, without all that is behind it. These are for the whole way, and not in a
# file of their own, because each file would start the whole stack again.


@pytest.fixture(scope="module")
def page(stack):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find(), args=QUIET)
        page = browser.new_page(locale="es-ES", viewport={"width": 390, "height": 800})
        page.set_default_timeout(60_000)
        problems = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: message.type == "error" and problems.append(message.text))
        page.goto(f"{stack.url}/#key={stack.env['SABUESO_API_KEY']}")
        page.problems = problems
        yield page
        browser.close()


@pytest.mark.parametrize(("question", "money"), [(ES, "8.300.000"), (EN, "8,300,000")], ids=["es", "en"])
def test_a_person_asks_on_the_page_and_opens_a_source(page, question, money):
    page.get_by_label("Tu pregunta").fill(question)
    page.keyboard.press("Enter")
    turn = page.locator(".turn").last
    expect(turn.locator(".actions")).to_be_visible(timeout=60_000)
    expect(turn.locator(".words")).to_contain_text("47")
    expect(turn.locator(".words")).to_contain_text(money)
    turn.locator("summary").first.click()
    expect(turn.locator(".bar.tool")).to_have_count(2)
    turn.locator(".cite").last.click()
    expect(page.locator("#source .cited mark").first).to_be_in_viewport(timeout=60_000)
    page.locator("#close").click()
    assert "key=" not in page.url
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways on a phone"
    assert page.problems == []


def test_a_person_uploads_a_file_sees_it_ready_and_deletes_it(page):
    text = b"# Regla de las bicicletas\n\nLas bicicletas plegables se guardan en la sala 17."
    page.get_by_role("tab", name="Documentos").click()
    page.get_by_label("En la colecci\u00f3n").select_option("policies")
    page.locator("#files").set_input_files({"name": "bicicletas.md", "mimeType": "text/markdown", "buffer": text})
    expect(page.locator(".upload .badge")).to_have_text("listo", timeout=60_000)
    page.locator("#filter").select_option("policies")
    row = page.locator("#documents tr", has_text="bicicletas")
    row.get_by_role("button").first.click()
    expect(page.locator("#source-body")).to_contain_text("sala 17", timeout=60_000)
    page.locator("#close").click()
    row.get_by_role("button", name="Borrar").click()
    page.get_by_role("dialog").get_by_role("button", name="Borrar").click()
    expect(row).to_have_count(0, timeout=60_000)
    assert page.problems == []
