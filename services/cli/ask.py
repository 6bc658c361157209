"""`sabueso ask`: an answer as it comes, how it comes about, and the sources behind it."""

from typing import Annotated, Any, Literal, cast

import typer
from rich.console import Console

from services.cli.console import Json, connect, out, print_json

Fields = dict[str, Any]
Strategy = Literal["auto", "react", "router", "rag", "plan"]
Reflect = Literal["off", "mark", "drop"]

_DONE = {
    "flagged": "shown to the model with a warning",
    "redacted": "those sentences were taken out",
    "quarantined": "it was kept from the model",
    "call_refused": "the call was not made",
}
_UNCONFIRMED = {
    "citation": "the source does not support",
    "number": "in no source, nor computed from one",
    "unsupported": "the sources do not support",
    "not_useful": "the model doubts that the question is answered",
    "link": "taken out",
    "prompt_leak": "the answer was cut",
}


def ask(
    question: Annotated[str, typer.Argument(help="In Spanish or English.")],
    as_json: Json = False,
    steps: Annotated[bool, typer.Option(help="Show how the answer comes about.")] = True,
    collection: Annotated[list[str] | None, typer.Option(help="Search only these collections.")] = None,
    deadline_ms: Annotated[int, typer.Option(min=100, help="Time for the whole answer.")] = 60_000,
    strategy: Annotated[
        Strategy,
        typer.Option(
            help="react: step by step; router: the question chooses; rag: documents only; plan: sub-questions."
        ),
    ] = "auto",
    reflect: Annotated[
        Reflect | None,
        typer.Option(help="Let the model check its answer, and mark or drop what is not supported."),
    ] = None,
    session: Annotated[
        str | None, typer.Option(help="A conversation by this name: what was asked in it before is known.")
    ] = None,
) -> None:
    """Answer a question, with its sources. Exit status 0: answered, 2: partial or refused, 1: failed."""
    given: Fields = {"strategy": strategy, "reflection": reflect, "session_id": session, "collections": collection}
    options = {name: value for name, value in given.items() if value} | {"deadline_ms": deadline_ms}
    printer = Printer(out, steps=steps, quiet=as_json)
    with connect() as client:
        for chunk in client.ask(question, options):
            printer.show(chunk)
    if as_json:
        print_json(printer.result())
    else:
        printer.finish()
    raise typer.Exit(0 if printer.finish_word == "answered" else 2)


class Printer:
    """Takes the chunks of one streamed answer in order."""

    def __init__(self, out: Console, *, steps: bool, quiet: bool) -> None:
        """`steps`: show the plan and the lookups too. `quiet`: show nothing, for JSON."""
        self._out = out
        self._steps = steps and not quiet
        self._quiet = quiet
        self._text: list[str] = []
        self._annotations: list[Fields] = []
        self._summary: Fields = {}
        self._step_of: dict[str, str] = {}

    @property
    def finish_word(self) -> str:
        """How the run ended: answered, partial or refused; failed before the end."""
        return self._summary.get("finish", "failed")

    def show(self, chunk: Fields) -> None:
        """Prints what is new in `chunk`."""
        extras: Fields = chunk.get("sabueso") or {}
        if step := extras.get("step"):
            self._show_step(step)
        if "finish" in extras:
            self._summary = extras
        for choice in chunk.get("choices") or ():
            delta: Fields = choice.get("delta") or {}
            self._annotations += cast(list[Fields], delta.get("annotations") or [])
            if text := delta.get("content"):
                self._show_text(text)

    def finish(self) -> None:
        """Prints the sources, what is wrong with the answer, and how it went."""
        self._out.print()
        for annotation in self._annotations:
            self._out.print(f"  {_source(annotation)}", style="dim", markup=False, soft_wrap=True)
        for finding in self._summary.get("findings", ()):
            self._warn(f"not confirmed: {_unconfirmed(finding)}")
        for suspicion in self._summary.get("suspicions", ()):
            self._warn(f"orders in a text: {suspicion['tool']}: {_done(suspicion)} ({suspicion['reason']})")
        timings, tokens = self._summary.get("timings_ms", {}), self._summary.get("tokens", {})
        facts = [
            self.finish_word + (f" ({self._summary['reason']})" if self._summary.get("reason") else ""),
            "{total:.0f} ms, model {model:.0f}, tools {tools:.0f}".format_map(
                {"total": 0, "model": 0, "tools": 0, **timings}
            ),
            f"{sum(tokens.values())} tokens",
            *_checking(self._summary),
        ]
        self._out.print("\n" + " · ".join(facts), style="dim", markup=False, soft_wrap=True)
        for skipped in self._summary.get("degraded", ()):
            self._warn(f"without {skipped['service']}: {skipped['reason']}")

    def result(self) -> Fields:
        """Everything, for scripts."""
        return {"answer": "".join(self._text), "annotations": self._annotations, **self._summary}

    def _show_text(self, text: str) -> None:
        if not self._text and self._steps:
            self._out.print()
        self._text.append(text)
        if not self._quiet:
            self._out.print(text, end="", markup=False, soft_wrap=True)

    def _show_step(self, step: Fields) -> None:
        if not self._steps:
            return
        match step.get("event"):
            case "chosen":
                self._line("»", f"{step['strategy']}: {step['reason']}")
            case "plan":
                for one in step["steps"]:
                    self._line("◦", _planned(one))
            case "step_finished" if not step["found"] or step.get("reason"):
                self._line("✗" if not step["found"] else "…", _reason(step), step["step_id"])
            case "step_finished":
                self._line("✓", "found", step["step_id"])
            case "thought" if step.get("thought"):
                self._line("…", step["thought"], step.get("step_id"))
            case "tool_call_started":
                self._step_of[step["call_id"]] = step.get("step_id", "")
                self._line("→", f"{step['tool']}: {_said(step.get('arguments'))}", step.get("step_id"))
            case "tool_call_finished":
                mark = "✓" if step["status"] == "ok" else "✗"
                cached = ", from the cache" if step["from_cache"] else ""
                told = f"{step['tool']}: {step['summary']} ({step['duration_ms']:.0f} ms{cached})"
                self._line(mark, told, self._step_of.get(step["call_id"]))
            case _:
                pass

    def _line(self, mark: str, text: str, step: str | None = None) -> None:
        place = f"{step} " if step else ""
        self._out.print(f"{place}{mark} {text}", style="cyan", markup=False, soft_wrap=True)

    def _warn(self, text: str) -> None:
        self._out.print(text, style="yellow", markup=False, soft_wrap=True)


def _said(arguments: Any) -> str:
    """What is asked of a tool: its query, or whatever the model wrote instead."""
    if not isinstance(arguments, dict):
        return str(arguments)
    fields = cast(Fields, arguments)
    return str(fields.get("query", fields.get("expression", fields)))


def _planned(step: Fields) -> str:
    who = f" [{step['specialist']}]" if step.get("specialist") else ""
    needs = f" (after {', '.join(step['depends_on'])})" if step["depends_on"] else ""
    return f"{step['id']} {step['question']}{who}{needs}"


def _reason(step: Fields) -> str:
    """What has become of a step of the plan that did not find all."""
    found = "found, but not all" if step["found"] else "not found"
    return f"{found}: {step['reason']}" if step.get("reason") else found


def _unconfirmed(finding: Fields) -> str:
    what = _UNCONFIRMED.get(finding["kind"], "")
    mark = f" [{finding['mark']}]" if finding.get("mark") else ""
    said = f": {finding['text']}" if finding.get("text") else ""
    return f"{what}{mark}{said} ({finding['reason']})"


def _done(suspicion: Fields) -> str:
    action = str(suspicion["action"])
    return _DONE.get(action, action)


def _checking(summary: Fields) -> list[str]:
    """What the answer's check cost, where there was one."""
    checking: Fields = summary.get("checking") or {}
    count = sum(checking.get("tokens", {}).values())
    return [f"{count} of them for checking, {checking['duration_ms']:.0f} ms"] if count else []


def _source(annotation: Fields) -> str:
    kind = annotation["type"]
    source: Fields = annotation[kind]
    mark = f"[{source['index']}]"
    if kind == "sql_citation":
        rows = "1 row" if source["row_count"] == 1 else f"{source['row_count']} rows"
        return f"{mark} SQL, {rows}: {source['statement']}  {source['params']}"
    if kind == "tool_citation":
        return f"{mark} {source['tool']} {_said(source['arguments'])}: {source['quote'][:200]}"
    if kind == "url_citation":
        return f"{mark} {source['title']} — {source['url']}"
    page = f", page {source['page']}" if source.get("page") else ""
    return f"{mark} {source['title']} — {source['section'] or source['filename']}{page} ({source['file_id']})"
