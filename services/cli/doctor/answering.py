"""Do the models answer and call tools, and does the agent answer. Costs a few hundred tokens."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from services.cli.client import Client, Failed, Refused
from services.cli.doctor.findings import Finding, warning, well, wrong
from services.cli.json_shapes import entries, first, mapping

_QUESTION = "What does the travel policy say about hotels? Search our documents before you answer."
_TOOL = {
    "type": "function",
    "function": {
        "name": "vector_search",
        "description": "Searches the company's documents: policies, contracts, handbooks.",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string", "description": "What to look for."}},
            "required": ["query"],
        },
    },
}
# Marks of a call that the model made and its server did not recognise.
_CALL_IN_TEXT = ("<tool_call>", "<|python_tag|>", "[TOOL_CALLS]", '"parameters":', '"arguments":')
_PARSER = "Start vLLM with --enable-auto-tool-choice --tool-call-parser llama3_json (or that of the model's family)."


def served(client: Client) -> list[Mapping[str, Any]]:
    """Every model that the key may call. Raises Failed."""
    return entries(client.call("GET", "/models").get("data"))


def models(client: Client, known: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Each model of a pool is given a question and a tool."""
    names = [str(one["id"]) for one in known if one.get("owned_by") == "pool"]
    if not names:
        yield wrong(
            "models",
            "no pool offers a model to this key",
            why="The model server lists none, or the tenant's `models` leave none over.",
            fix="curl …/v1/models at the model server; compare `models` in the tenant's file.",
        )
    for name in names:
        try:
            yield _calls_a_tool(name, client.call("POST", "/chat/completions", json=_asked(name)))
        except Refused as error:
            yield _refused(name, error)
        except Failed as error:
            yield wrong("models", f"`{name}` does not answer: {error}", fix="Look at the model server and its load.")


def _asked(model: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": _QUESTION}]
    return {"model": model, "messages": messages, "tools": [_TOOL], "max_tokens": 256, "temperature": 0}


def _refused(name: str, error: Refused) -> Finding:
    if "tool" in str(error).lower():
        return wrong("models", f"`{name}` refuses tools: {error}", why="The agent needs them.", fix=_PARSER)
    if error.status_code == 429:
        return warning("models", f"`{name}` was not asked: {error}", fix="Wait, or use a key with room.")
    return wrong("models", f"`{name}` answers {error}", fix="Look at the model server's log.")


def _calls_a_tool(name: str, answer: Mapping[str, Any]) -> Finding:
    message = mapping(first(answer.get("choices")).get("message"))
    calls = entries(message.get("tool_calls"))
    text = str(message.get("content") or "")
    if calls:
        try:
            json.loads(str(mapping(calls[0].get("function")).get("arguments")))
        except ValueError:
            why = "The arguments of its call are no JSON; the agent repairs it once, which costs a turn."
            return warning("models", f"`{name}` calls tools badly", why=why, fix=_PARSER)
        return well("models", f"`{name}` answers and calls tools")
    if any(mark in text for mark in _CALL_IN_TEXT):
        why = "Its server left the call in the text; the agent reads it there, other clients do not."
        return warning("models", f"`{name}` calls tools in its text", why=why, fix=_PARSER)
    why = "It was asked to search first, and answered at once." if text else "It said nothing at all."
    return warning(
        "models", f"`{name}` did not call the tool", why=why, fix=f"Is it a model with tool calls? {_PARSER}"
    )


def agent(client: Client) -> Iterator[Finding]:
    """One question for the agent. Raises Failed."""
    body = {"model": "sabueso", "messages": [{"role": "user", "content": _QUESTION}]}
    answer = client.call("POST", "/chat/completions", json=body)
    told = mapping(answer.get("sabueso"))
    for lost in entries(told.get("degraded")):
        yield warning(
            "agent",
            f"an answer went without {lost.get('service')}: {lost.get('reason')}",
            fix="See the findings on that service.",
        )
    if told.get("finish") == "partial":
        yield warning("agent", f"an answer was cut short: {told.get('reason')}", fix="Look at the orchestrator's log.")
    else:
        yield well("agent", f"answers ({told.get('strategy')}, {told.get('finish')})")
