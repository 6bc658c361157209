"""Reads what the gateway answered: an agent's completion, passages of a search, a plain model's reply."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from sqlglot import exp

from services.evaluation.answered import Answered, Call, Json, Passage
from services.evaluation.golden.item import PAGE, TABLE, Item
from services.evaluation.runs.record import Evidence
from services.evaluation.sql_text import parsed

Fields = Mapping[str, Any]
# Between the sources of one passage: rows of a statement may be from several tables.
ALSO = " + "
# How it begins what it says of a call that it could not read.
_INVALID = ("invalid arguments", "there is no tool")


@dataclass(frozen=True)
class Read:
    """An answer, where its passages come from, and the sources that it cites."""

    answered: Answered
    evidence: Evidence
    cited: tuple[str, ...] = ()


def agent_answer(item: Item, body: Fields) -> Read:
    """Of a chat completion of the agent. Raises KeyError and TypeError for what is none."""
    message = body["choices"][0]["message"]
    summary: Fields = body["sabueso"]
    shown: list[Fields] | None = summary.get("evidence")
    sources = [dict(one[one["type"]]) for one in message.get("annotations") or ()]
    if shown is None:
        passages, evidence = tuple(quoted(one) for one in sources), Evidence.QUOTES
    else:
        passages, evidence = tuple(evidence_passage(one) for one in shown), Evidence.SHOWN
    answered = Answered(
        question=item.question,
        answer=message["content"] or "",
        language=item.language,
        finish=summary["finish"],
        passages=passages,
        calls=tuple(calls_of(summary["steps"])),
        strategy=summary["strategy"],
        model=body["model"],
        answer_id=summary["answer_id"],
        milliseconds=dict(summary["timings_ms"]),
        tokens=dict(summary["tokens"]),
        degraded=tuple(one["service"] for one in summary["degraded"]),
    )
    return Read(answered, evidence, tuple(dict.fromkeys(quoted(one).source for one in sources)))


def calls_of(steps: list[Fields]) -> Iterator[Call]:
    """All calls in order. Turns are counted from 0; steps of a plan that ran side by side share one."""
    turns = {place: turn for turn, place in enumerate(sorted({step["iteration"] for step in steps}))}
    for step in steps:
        for call in step["calls"]:
            arguments = call["arguments"]
            is_object = isinstance(arguments, dict)
            refused = call["status"] == "error" and str(call["summary"]).casefold().startswith(_INVALID)
            given = cast(dict[str, Json], arguments) if is_object else {}
            yield Call(call["tool"], given, turns[step["iteration"]], is_object and not refused)


def search_answer(item: Item, body: Fields) -> Read:
    """Of a search: passages, best first, and no answer."""
    passages = tuple(found_passage(one) for one in body["results"])
    timings = {name: float(value) for name, value in body["stages"].items()}
    answered = Answered(
        item.question, "", item.language, passages=passages, milliseconds=timings, degraded=tuple(body["degraded"])
    )
    return Read(answered, Evidence.FOUND)


def found_passage(result: Fields) -> Passage:
    """A passage as a search shows it."""
    return Passage(result["text"], result["document_id"], float(result["score"]))


def evidence_passage(one: Fields) -> Passage:
    """A piece of evidence as the model was shown it."""
    score = one.get("score")
    return Passage(str(one.get("text") or ""), source_of(one), None if score is None else float(score))


def quoted(source: Fields) -> Passage:
    """What an annotation quotes."""
    if "rows" in source:
        text = f"{', '.join(source['columns'])}\n" + "\n".join(str(row) for row in source["rows"])
        return Passage(text, source_of(source))
    return Passage(str(source.get("quote") or ""), source_of(source))


def source_of(one: Fields) -> str:
    """As golden sets name it: a document's id, `table:…` (several with ALSO between them), `page:…`, or a tool."""
    if document := one.get("document_id") or one.get("file_id"):
        return str(document)
    if statement := one.get("statement"):
        return ALSO.join(TABLE + name for name in tables_of(str(statement)))
    if url := one.get("url"):
        return PAGE + page_name(str(url))
    return str(one.get("tool") or one.get("source") or "")


def tables_of(statement: str) -> list[str]:
    """Names of the tables that it reads, sorted. A statement that cannot be read has none."""
    tree = parsed(statement)
    if tree is None:
        return []
    made = {one.alias for one in tree.find_all(exp.CTE)}
    return sorted({table.name for table in tree.find_all(exp.Table)} - made)


def page_name(url: str) -> str:
    """The last part of the path, which is how sets of this project name a page; of a site's front page its host."""
    parts = url.split("?")[0].split("#")[0].rstrip("/").split("/")
    return parts[-1].removesuffix(".html")
