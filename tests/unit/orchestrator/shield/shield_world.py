"""Tools, results and shields for the tests of the shield."""

import json
from typing import Any

from services.orchestrator.arguments import Arguments, TypedForm
from services.orchestrator.model import ToolCall
from services.orchestrator.results import Page, Pages, Passage, Passages, Reply, Rows
from services.orchestrator.shield.tenant_shield import TenantShield
from services.orchestrator.shield.verdicts import Verdicts
from services.orchestrator.tools import SqlQuery, Tool, VectorSearch, WebSearch
from services.runtime.recognition.injections.detector import Detector, Suspect
from services.runtime.recognition.injections.sentences import sentences
from services.runtime.tenants import GuardTools


class Anything(Arguments):
    text: Any = ""
    to: str = ""


async def nothing(arguments, seconds):
    raise AssertionError("it is not called")


def tool(name, form, result, *, writes=False):
    origin = name.split("__")[0] if "__" in name else ""
    return Tool(name, "service", "", TypedForm(form), result, nothing, 5, origin=origin, writes=writes)


TOOLS = {
    one.name: one
    for one in (
        tool("vector_search", VectorSearch, Passages),
        tool("web_search", WebSearch, Pages),
        tool("sql_query", SqlQuery, Rows),
        tool("turnover_by_supplier", Anything, Rows),
        tool("crm__find", Anything, Reply),
        tool("crm__update", Anything, Reply, writes=True),
    )
}


class ByWord(Detector):
    """Blames sentences that say `obey`, and half blames those that say `perhaps`."""

    def suspects(self, text, place="data", least=0.8):
        for start, end in sentences(text):
            score = 1.0 if "obey" in text[start:end] else 0.5 * ("perhaps" in text[start:end])
            if score >= least:
                yield Suspect(start, end, score, "order")


def shield_for(question, *, history=(), detector=None, **policy):
    verdicts = Verdicts(detector or Detector())
    return TenantShield("acme", GuardTools(**policy), TOOLS, question, history, verdicts)


def call(name, **arguments):
    return ToolCall("c", name, json.dumps(arguments))


def passages(*texts, source="contract.pdf"):
    found = (Passage(f"d{at}", f"c{at}", "Contract", source, 1, "", "en", text) for at, text in enumerate(texts))
    return Passages(tuple(found))


def pages(*texts, url="https://news.example/copper"):
    return Pages(tuple(Page(url, "News", text, "") for text in texts))


def rows(*cells):
    return Rows("SELECT notes FROM suppliers", "[]", ("notes",), tuple((cell,) for cell in cells))


def reply(text):
    return Reply("crm__find", "{}", text)
