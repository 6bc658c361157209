"""Shows an answer as it comes: what the model looks up, its words, and the sources behind them."""

from typing import Any, cast

from rich.console import Console

Fields = dict[str, Any]


class Printer:
    """Takes the chunks of one streamed answer in order."""

    def __init__(self, out: Console, *, steps: bool, quiet: bool) -> None:
        """`steps`: show lookups too. `quiet`: show nothing, for JSON."""
        self._out = out
        self._steps = steps and not quiet
        self._quiet = quiet
        self._text: list[str] = []
        self._annotations: list[Fields] = []
        self._summary: Fields = {}

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
        """Prints the sources and how it went."""
        self._out.print()
        for annotation in self._annotations:
            self._out.print(f"  {_source(annotation)}", style="dim", markup=False, soft_wrap=True)
        timings, tokens = self._summary.get("timings_ms", {}), self._summary.get("tokens", {})
        facts = [
            self.finish_word + (f" ({self._summary['reason']})" if self._summary.get("reason") else ""),
            "{total:.0f} ms, model {model:.0f}, tools {tools:.0f}".format_map(
                {"total": 0, "model": 0, "tools": 0, **timings}
            ),
            f"{sum(tokens.values())} tokens",
        ]
        self._out.print("\n" + " · ".join(facts), style="dim", markup=False)
        for skipped in self._summary.get("degraded", ()):
            self._out.print(f"without {skipped['service']}: {skipped['reason']}", style="yellow", markup=False)

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
            case "thought" if step.get("thought"):
                self._line("…", step["thought"])
            case "tool_call_started":
                self._line("→", f"{step['tool']}: {_said(step.get('arguments'))}")
            case "tool_call_finished":
                mark = "✓" if step["status"] == "ok" else "✗"
                cached = ", from the cache" if step["from_cache"] else ""
                self._line(mark, f"{step['tool']}: {step['summary']} ({step['duration_ms']:.0f} ms{cached})")
            case _:
                pass

    def _line(self, mark: str, text: str) -> None:
        self._out.print(f"{mark} {text}", style="cyan", markup=False, soft_wrap=True)


def _said(arguments: Any) -> str:
    """What is asked of a tool: its query, or whatever the model wrote instead."""
    if not isinstance(arguments, dict):
        return str(arguments)
    fields = cast(Fields, arguments)
    return str(fields.get("query", fields))


def _source(annotation: Fields) -> str:
    kind = annotation["type"]
    source: Fields = annotation[kind]
    mark = f"[{source['index']}]"
    if kind == "sql_citation":
        rows = "1 row" if source["row_count"] == 1 else f"{source['row_count']} rows"
        return f"{mark} SQL, {rows}: {source['statement']}  {source['params']}"
    if kind == "url_citation":
        return f"{mark} {source['title']} — {source['url']}"
    page = f", page {source['page']}" if source.get("page") else ""
    return f"{mark} {source['title']} — {source['section'] or source['filename']}{page} ({source['file_id']})"
