"""Jupyter notebooks to blocks: Markdown cells as Markdown, code cells as code, outputs as bounded text."""

import json
from typing import Any, cast

from services.ingestion.parsed import Outline, Parsed, Unreadable
from services.ingestion.parsers.parse_markdown import add_markdown
from services.ingestion.parsers.text_encoding import clean

_LONGEST_OUTPUT = 4_000


def parse_ipynb(text: str) -> Parsed:
    """Blocks of a notebook. Pictures and widgets among the outputs are left out. Raises Unreadable when it is none."""
    try:
        notebook: Any = json.loads(text)
        cells: Any = notebook["cells"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Unreadable("The notebook is damaged: it holds no list of cells; save it again in Jupyter.") from None
    outline = Outline()
    titles: list[str] = []
    shortened = 0
    for one in cast(list[Any], cells) if isinstance(cells, list) else ():
        if not isinstance(one, dict):
            continue
        cell = cast(dict[str, Any], one)
        source = clean(_joined(cell.get("source")))
        if cell.get("cell_type") == "markdown":
            titles.append(add_markdown(outline, source))
        elif cell.get("cell_type") == "code":
            outline.add(source, "code")
            for output in cast(list[Any], cell.get("outputs") or []):
                shown = _output(output).strip("\n")
                shortened += len(shown) > _LONGEST_OUTPUT
                outline.add(f"Output:\n{shown[:_LONGEST_OUTPUT]}" if shown.strip() else "", "code")
        else:
            outline.add(source)
    metadata = notebook.get("metadata")
    named = cast(dict[str, Any], metadata).get("title") if isinstance(metadata, dict) else None
    title = named if isinstance(named, str) else next((one for one in titles if one), "")
    warnings = (f"{shortened} long outputs of the notebook were shortened.",) if shortened else ()
    return Parsed(title=clean(title), blocks=tuple(outline.blocks), warnings=warnings)


def _output(output: Any) -> str:
    """Text of an output: what was printed, the plain form of a result, the name of an error."""
    if not isinstance(output, dict):
        return ""
    output = cast(dict[str, Any], output)
    if "ename" in output:
        return clean(f"{output.get('ename')}: {output.get('evalue')}")
    shown = output.get("data")
    plain = cast(dict[str, Any], shown).get("text/plain") if isinstance(shown, dict) else None
    return clean(_joined(output.get("text") if plain is None else plain))


def _joined(lines: Any) -> str:
    if isinstance(lines, list):
        return "".join(line for line in cast(list[Any], lines) if isinstance(line, str))
    return lines if isinstance(lines, str) else ""
