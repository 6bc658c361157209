"""How an answer comes about, on the page: the way, the plan, what was kept out, and what is not confirmed."""

import asyncio

import pytest
from playwright.async_api import expect

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb
from tests.e2e.scripted import (
    chosen,
    end,
    finding,
    finished,
    lost,
    plan,
    said,
    started,
    step_finished,
    suspicion,
    thought,
    web,
    words,
)
from tests.e2e.test_page_answers import ask, ended
from tests.integration.gateway_stack import milliseconds

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVIL = "<img src=x onerror=\"document.title='owned'\">"
CHECKED = {"checking_usage": pb.Usage(prompt_tokens=800, completion_tokens=12), "checking_duration": milliseconds(640)}


async def opened(turn):
    """The steps of an answer that has ended."""
    await ended(turn)
    await turn.locator("summary").first.click()
    return turn.locator(".timeline")


async def test_a_question_is_asked_as_the_person_chose_and_the_choice_is_remembered(page, here):
    await ended(await ask(page, "as usual"))
    options = here.agent.requests[-1].options
    assert (options.strategy, options.reflection) == ("auto", "")
    await page.get_by_label("How to answer").select_option("Documents only")
    await page.get_by_label("Check the answer").select_option("Leave out what its sources do not support")
    await page.reload()
    await expect(page.get_by_label("How to answer")).to_have_value("rag")
    turn = await ask(page, "as chosen")
    await ended(turn)
    options = here.agent.requests[-1].options
    assert (options.strategy, options.reflection) == ("rag", "drop")
    await page.get_by_label("How to answer").select_option("With a plan")
    await page.locator(".turn").last.get_by_role("button", name="Ask again").click()
    await ended(page.locator(".turn").last)
    assert here.agent.requests[-1].options.strategy == "plan"


async def timeline_of_chosen(visit, here, language):
    """How the answer to the question `chosen` was found, opened, on a page in that language."""
    page = await visit(f"/#key={here.key()}", locale=language)
    await page.locator("#question").fill("chosen")
    await page.keyboard.press("Enter")
    return await opened(page.locator(".turn"))


@pytest.mark.parametrize(
    ("language", "said_"),
    [
        ("en-GB", ["Direct the question itself says what it needs: Documents · 92% sure",
                   "Changed over to: Step by step the tide is low"]),
        ("es-ES", ["Directo la pregunta misma dice lo que necesita: Documentos · 92 % de seguridad",
                   "Se cambió a: Paso a paso the tide is low"]),
    ],
    ids=["en", "es"],
)  # fmt: skip
async def test_the_way_that_was_chosen_is_told_with_its_reason(visit, here, language, said_):
    here.script(
        "chosen",
        chosen("router", "the question itself says what it needs: vector_search", 0.92),
        started("a", "vector_search", query="x"),
        finished("a", "vector_search", 20, "0 passages"),
        chosen("react", "the tide is low"),
        words("Nothing."),
        end(),
    )
    timeline = await timeline_of_chosen(visit, here, language)
    await expect(timeline.locator(".chosen")).to_have_text(said_)


@pytest.mark.parametrize(
    ("language", "said_"),
    [
        ("en-GB", "Step by step with the searches that answered the same question before"),
        ("es-ES", "Paso a paso con las consultas que respondieron antes a la misma pregunta"),
    ],
    ids=["en", "es"],
)
async def test_a_question_that_is_begun_as_before_says_so(visit, here, language, said_):
    here.script(
        "chosen",
        chosen("react", "as asked"),
        chosen("react", "with the calls that answered the same question before"),
        started("a", "vector_search", query="x"),
        finished("a", "vector_search", 20, "0 passages"),
        words("Nothing."),
        end(),
    )
    timeline = await timeline_of_chosen(visit, here, language)
    await expect(timeline.locator(".chosen").last).to_have_text(said_)


async def test_a_plan_shows_what_waits_for_what_and_which_step_is_at_work(page, here):
    first, second, third = asyncio.Event(), asyncio.Event(), asyncio.Event()
    here.script(
        "plan",
        chosen("plan", "as asked"),
        plan(
            ("s1", "Which provider?", "sql", []),
            ("s2", "Which penalties?", "documents", []),
            ("s3", "Which of that provider?", "", ["s1", "s2"]),
        ),
        thought(1, step="s1"),
        started("a", "sql_query", step="s1", query="SELECT 1"),
        thought(2, step="s2"),
        started("b", "vector_search", 2, step="s2", query="penalties"),
        first,
        finished("a", "sql_query", 20, "1 row"),
        finished("b", "vector_search", 30, "timeout", 2, ok=False),
        second,
        thought(3, step="s3"),
        started("c", "calculate", 3, step="s3", expression="1 + 1"),
        third,
        finished("c", "calculate", 1, "2", 3),
        plan(("s4", "How much is that?", "", ["s3"]), revision=2),
        words("Two."),
        end(),
    )
    turn = await ask(page, "plan")
    steps, states = turn.locator(".step"), turn.locator(".step-state")
    await expect(states).to_have_text(["running", "running", "waits"])
    await expect(steps.nth(0)).to_contain_text("Which provider?Database")
    await expect(steps.nth(2)).to_contain_text("needs 1, 2")
    await expect(steps.nth(0).locator(".bar.tool.running")).to_have_count(1)
    await expect(steps.nth(1).locator(".bar.tool.running")).to_have_count(1)
    first.set()
    await expect(turn.locator(".bar.tool.running")).to_have_count(0)
    await expect(states).to_have_text(["running", "running", "waits"])
    second.set()
    await expect(states).to_have_text(["done", "failed", "running"])
    await expect(turn.locator("summary").first).to_contain_text("Asking the calculator")
    third.set()
    timeline = await opened(turn)
    await expect(states).to_have_text(["done", "failed", "done", "no look-up"])
    await expect(steps.nth(3)).to_contain_text("needs 3 · added later")
    await expect(steps.nth(1)).to_contain_text("Failed: timeout")
    await expect(steps.nth(2).locator(".bars li", has_text="Calculator")).to_contain_text("1 + 1")
    await expect(timeline.locator("> .bars").first).to_contain_text("Model plans")


async def test_the_end_of_a_step_is_shown_when_it_comes_with_what_it_came_to(page, here):
    halfway, late = asyncio.Event(), asyncio.Event()
    here.script(
        "ends",
        plan(("s1", "One?", "sql", []), ("s2", "Two?", "", []), ("s3", "Three?", "", ["s1"]), ("s4", "Four?", "", [])),
        started("a", "sql_query", step="s1", query="SELECT 1"),
        finished("a", "sql_query", 20, "1 row"),
        step_finished("s1"),
        step_finished("s2", False, "what it depends on was not found"),
        halfway,
        thought(2, step="s3"),
        started("b", "vector_search", 2, step="s3", query="x"),
        finished("b", "vector_search", 20, "timeout after 5s", 2, ok=False),
        step_finished("s3", False, "nothing was found"),
        step_finished("s4", True, "deadline"),
        late,
        words("One."),
        end(),
    )
    turn = await ask(page, "ends")
    steps, states = turn.locator(".step"), turn.locator(".step-state")
    await expect(states).to_have_text(["done", "nothing found", "running", "running"])
    await expect(steps.nth(1)).to_contain_text("what it depends on was not found")
    halfway.set()
    await expect(states).to_have_text(["done", "nothing found", "failed", "done"])
    await expect(steps.nth(2).locator(".facts").first).to_have_text("needs 1")
    await expect(steps.nth(3)).to_contain_text("There was not enough time to find everything.")
    late.set()
    await opened(turn)
    await expect(states).to_have_text(["done", "nothing found", "failed", "done"])


async def test_what_services_say_is_told_in_the_readers_language_and_else_as_it_came(visit, here):
    here.script(
        "spanish",
        chosen("react", "vector_search: the model has to write its arguments"),
        started("a", "vector_search", query="x"),
        suspicion(
            "redacted",
            "vector_search",
            "a",
            "2 text(s) of this result: asks for other work, marked when the document was taken in, "
            "orders to the model (classifier)",
        ),
        started("b", "sql_query", query="SELECT 1"),
        started("c", "web_search", query="y"),
        finished("a", "vector_search", 20, "5 passages; 3 queries (multi_query); in legal"),
        finished("b", "sql_query", 20, "1 row (truncated)"),
        finished("c", "web_search", 20, "timeout after 5s", ok=False),
        started("d", "crm__find", 2, name="z"),
        finished("d", "crm__find", 20, "the tide is low", 2, ok=False),
        lost("web_tool", "timeout after 5s"),
        lost("sessions", "the store of conversations does not answer"),
        lost("sql_tool", "sql_tool does not answer"),
        lost("crm", "the tide is high"),
        words("Nada."),
        end(),
    )
    page = await visit(f"/#key={here.key()}", locale="es-ES")
    await page.locator("#question").fill("spanish")
    await page.keyboard.press("Enter")
    turn = page.locator(".turn")
    timeline = await opened(turn)
    await expect(timeline.locator(".chosen")).to_contain_text("Documentos: el modelo tiene que escribir lo que se pide")
    await expect(timeline.locator(".outcome")).to_have_text(
        [
            "5 pasajes; 3 búsquedas (paráfrasis); en legal",
            "1 fila (recortado)",
            "Ha fallado: tardó más de 5s",
            "Ha fallado: the tide is low",
        ]
    )
    await expect(timeline.locator(".suspicion")).to_contain_text(
        "2 textos de este resultado: pide otro trabajo, señalado al incorporar el documento, órdenes al modelo"
    )
    await expect(turn.locator(".notice")).to_contain_text(
        [
            "Hecha sin la web: tardó más de 5s",
            "el almacén de conversaciones no responde",
            "no responde: la base de datos",
            "the tide is high",
        ]
    )


async def test_a_step_that_was_stopped_says_so_and_a_kept_plan_is_drawn_again(page, here):
    never = asyncio.Event()
    steps = plan(("s1", "One?", "web", []), ("s2", "Two?", "", ["s1"]))
    here.script("stop", steps, thought(step="s1"), started("a", "web_search", step="s1", query="x"), never)
    turn = await ask(page, "stop")
    await expect(turn.locator(".bar.tool.running")).to_have_count(1)
    await page.keyboard.press("Escape")
    await expect(turn).to_contain_text("You stopped this answer.")
    await expect(turn.get_by_role("button", name="Try again")).to_be_visible()
    # The end of an answer is kept a moment after it is shown.
    kept = """async () => {
      const { get } = await import("/ask/history.js");
      return (await get(location.hash.split("/")[2]))?.turns.at(-1).state;
    }"""
    async with asyncio.timeout(30):
        while await page.evaluate(kept) != "stopped":
            await asyncio.sleep(0.05)
    await page.reload()
    await opened(page.locator(".turn"))
    await expect(page.locator(".step-state")).to_have_text(["stopped", "no look-up"])


@pytest.mark.parametrize(
    ("action", "words_"),
    [
        ("flagged", "A text in the web tried to give orders; the model was warned."),
        ("redacted", "A text in the web tried to give orders; those sentences were taken out."),
        ("quarantined", "A text in the web tried to give orders; it was kept out."),
        ("call_refused", "This was not done: a text from outside asked for it."),
    ],
)
async def test_text_that_gives_orders_is_told_where_it_stood(page, here, action, words_):
    here.script(
        action,
        started("a", "web_search", query="x"),
        suspicion(action, "web_search", "a"),
        finished("a", "web_search", 20, "3 pages"),
        suspicion("flagged", "crm__find", "elsewhere"),
        words("Fine."),
        end(),
    )
    turn = await ask(page, action)
    timeline = await opened(turn)
    await expect(turn.locator("summary").first).to_contain_text("2 suspicious texts")
    await expect(timeline.locator(".bar-row .suspicion")).to_contain_text(f"{words_} 1 text of this result: orders to")
    await expect(timeline.locator("> .bar-facts .suspicion")).to_contain_text(
        "A text in crm__find tried to give orders"
    )


async def test_what_the_sources_do_not_support_stands_below_the_answer_with_the_cost_of_the_check(page, here):
    here.script(
        "checked",
        words("It ends in 2031 and costs 7 €."),
        finding("number", "2031"),
        finding("number", "7 €"),
        finding("citation", "It ends.", 2),
        finding("citation", "It ends.", 2),
        finding("unsupported", "It costs 7 €."),
        finding("not_useful"),
        finding("link", reason="an image that leads to no source of this answer was removed"),
        finding("link", reason="a link that leads to no source of this answer was removed"),
        end(**CHECKED),
    )
    turn = await ask(page, "checked")
    found = turn.get_by_role("region", name="Not all of this is confirmed.")
    await expect(found.locator("li")).to_have_text(
        [
            "In no source, nor computed from one: 2031 · 7 €",
            "Source [2] does not support this; its mark was taken out: It ends.",
            "The sources do not support: It costs 7 €.",
            "The model itself doubts that this answers the question.",
            "A link or picture that leads to no source was taken out.",
            "A link or picture that leads to no source was taken out.",
        ]
    )
    await expect(turn.locator(".checked")).to_have_text("Check by the model: 812 tokens, 0.64s")


async def test_an_answer_that_was_checked_and_found_right_says_so(page, here):
    here.script("right", words("Fine."), end(**CHECKED))
    turn = await ask(page, "right")
    await expect(turn.locator(".checked")).to_contain_text("Checked against its sources, nothing to object to")
    await ended(await ask(page, "unchecked"))
    await expect(page.locator(".checked")).to_have_count(1)


async def test_an_answer_that_was_taken_back_says_why(page, here):
    here.script("taken back", words("I do not know."), end(pb.FINISH_REFUSED, "unsupported"))
    turn = await ask(page, "taken back")
    await expect(turn.locator(".notice")).to_contain_text("What was written could not be supported")


async def test_what_another_tool_said_opens_like_other_sources(page, here):
    here.script(
        "tools",
        words("Acme has the level gold [1], that is 4 € [2]."),
        said(1, "crm__find", "Acme, level gold", name="Acme", limit=3),
        said(2, "calculate", "2 * 2 = 4", expression="2 * 2"),
        end(),
    )
    turn = await ask(page, "tools")
    await turn.get_by_role("button", name="Source 1: crm__find · Acme, 3").click()
    dialog = page.get_by_role("dialog", name="1 crm__find")
    await expect(dialog.locator("tr")).to_have_text(["nameAcme", "limit3"])
    await expect(dialog.locator(".cited mark")).to_have_text("Acme, level gold")
    await expect(dialog).to_contain_text("Text of an external tool, as it came.")
    await dialog.get_by_role("button", name="Next source").click()
    dialog = page.get_by_role("dialog", name="2 Calculator")
    await expect(dialog).to_contain_text("2 * 2 = 4")
    await expect(dialog).not_to_contain_text("external tool")


async def test_hostile_words_in_all_that_a_run_says_are_shown_and_never_run(page, here):
    here.script(
        "hostile",
        chosen("react", EVIL),
        plan((f"{EVIL}", EVIL, EVIL, [EVIL, "nowhere"]), ("s2", EVIL, "", [EVIL])),
        thought(1, EVIL, step=EVIL),
        started("a", EVIL, step=EVIL, query=EVIL),
        suspicion("quarantined", EVIL, "a", EVIL),
        finished("a", EVIL, 20, EVIL),
        words(f"{EVIL} [x](javascript:alert(1)) [y](https://evil.example/?q=secret) "),
        words('![z](https://evil.example/p.png) <a href="https://evil.example">w</a> data:text/html,x [1][2]'),
        said(1, EVIL, EVIL, **{EVIL: EVIL}),
        web(2, "javascript:document.title='owned'", EVIL, EVIL),
        finding("unsupported", EVIL, reason=EVIL),
        finding("link", EVIL, reason=EVIL),
        end(),
    )
    turn = await ask(page, "hostile")
    timeline = await opened(turn)
    await expect(timeline.locator(".step").first).to_contain_text(EVIL)
    await expect(timeline.locator(".suspicion")).to_contain_text(EVIL)
    await expect(turn.locator(".findings li")).to_contain_text([EVIL, EVIL])
    for mark in (0, 1):
        await turn.locator(".cite").nth(mark).click()
        await expect(page.get_by_role("dialog")).to_contain_text(EVIL)
        await page.keyboard.press("Escape")
    assert await page.locator("img:not([src='icon.svg']), script:not([src])").count() == 0
    assert await page.title() == "sabueso"
    assert await turn.locator("a").count() == 0


async def test_an_answer_links_to_the_pages_that_it_cites_and_to_no_others(page, here):
    here.script(
        "links",
        words("See [this](https://example.org/a?b=1) and [that](https://example.org/a?b=2) [1]."),
        web(1, "https://example.org/a?b=1", "CPI", "x"),
        end(),
    )
    turn = await ask(page, "links")
    await expect(turn.locator(".words a")).to_have_text(["this"])
    await expect(turn.locator(".words a")).to_have_attribute("rel", "noopener noreferrer nofollow")
    await expect(turn.locator(".words")).to_contain_text("that (example.org)")
