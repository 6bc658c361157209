"""Compares our parsers with other libraries on a folder of files: `python -m loadtests.bench_parsing FOLDER`.

Prints Markdown: a row a file (read or refused, seconds, peak MiB, characters), the sums, and the recall of words and
table cells where `expected_outputs/NAME.md` lies beside a file. Only what is importable takes part. Each file is read
in a fork of its own; the import of the library counts towards its memory and not its time.
"""

import argparse
import difflib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TIMEOUT_SECONDS = 120
# What must be importable for a candidate to take part.
_NEEDED = {
    "sabueso": "services.ingestion.parsers.parse", "kreuzberg": "kreuzberg", "markitdown": "markitdown",
    "pdf-inspector": "pdf_inspector", "pdf-oxide": "pdf_oxide", "pypdf": "pypdf",
    "pdfminer": "pdfminer", "pdfplumber": "pdfplumber", "pypdfium2": "pypdfium2", "pptx": "pptx", "docx": "docx",
    "openpyxl": "openpyxl", "calamine": "python_calamine", "striprtf": "striprtf",
}  # fmt: skip
_READS = dict.fromkeys(("pdf-inspector", "pdf-oxide", "pypdf", "pdfminer", "pdfplumber", "pypdfium2"), (".pdf",)) | {
    "pptx": (".pptx",), "docx": (".docx",), "openpyxl": (".xlsx",), "calamine": (".xlsx", ".xls"),
    "striprtf": (".rtf",),
}  # fmt: skip


@dataclass(frozen=True)
class Result:
    """One file read by one candidate. `refusal` is empty where it was read. Memory is the process's peak."""

    refusal: str
    seconds: float
    peak_mebibytes: float
    text: str


def _sabueso(path: Path) -> str:
    from services.ingestion.parsers import parse

    return "\n\n".join(block.text for block in parse.parse(path.read_bytes(), path.name).blocks)


def _kreuzberg(path: Path) -> str:
    import kreuzberg  # pyright: ignore

    config = kreuzberg.ExtractionConfig(use_cache=False, output_format="markdown")
    return kreuzberg.extract_file_sync(str(path), config=config).content


def _markitdown(path: Path) -> str:
    from markitdown import MarkItDown  # pyright: ignore

    return MarkItDown(enable_plugins=False).convert(str(path)).text_content


def _pdf_inspector(path: Path) -> str:
    import pdf_inspector  # pyright: ignore

    return pdf_inspector.process_pdf(str(path)).markdown or ""


def _pdf_oxide(path: Path) -> str:
    import pdf_oxide  # pyright: ignore

    document: Any = pdf_oxide.PdfDocument(str(path))
    return "\n\n".join(document.to_markdown(index) for index in range(document.page_count()))


def _pypdf(path: Path) -> str:
    from pypdf import PdfReader  # pyright: ignore

    return "\n".join(page.extract_text() for page in PdfReader(path).pages)


def _pdfminer(path: Path) -> str:
    from pdfminer.high_level import extract_text

    return extract_text(path)


def _pdfplumber(path: Path) -> str:
    import pdfplumber

    with pdfplumber.open(path) as opened:
        return "\n".join(page.extract_text() for page in opened.pages)


def _pypdfium2(path: Path) -> str:
    import pypdfium2

    return "\n".join(page.get_textpage().get_text_bounded() for page in pypdfium2.PdfDocument(path))


def _pptx(path: Path) -> str:
    from pptx import Presentation  # pyright: ignore

    shapes = [shape for slide in Presentation(str(path)).slides for shape in slide.shapes]
    return "\n".join(shape.text_frame.text for shape in shapes if shape.has_text_frame)


def _docx(path: Path) -> str:
    from docx import Document

    return "\n".join(paragraph.text for paragraph in Document(str(path)).paragraphs)


def _openpyxl(path: Path) -> str:
    from openpyxl import load_workbook  # pyright: ignore

    book: Any = load_workbook(path, read_only=True, data_only=True)
    return "\n".join(" | ".join(map(str, row)) for sheet in book for row in sheet.iter_rows(values_only=True))


def _calamine(path: Path) -> str:
    from python_calamine import CalamineWorkbook  # pyright: ignore

    book: Any = CalamineWorkbook.from_path(path)
    rows = [row for name in book.sheet_names for row in book.get_sheet_by_name(name).to_python()]
    return "\n".join(" | ".join(map(str, row)) for row in rows)


def _striprtf(path: Path) -> str:
    from striprtf.striprtf import rtf_to_text  # pyright: ignore

    return rtf_to_text(path.read_text("latin-1"))


_CANDIDATES: dict[str, Callable[[Path], str]] = {
    "sabueso": _sabueso, "kreuzberg": _kreuzberg, "markitdown": _markitdown, "pdf-inspector": _pdf_inspector,
    "pdf-oxide": _pdf_oxide, "pypdf": _pypdf, "pdfminer": _pdfminer, "pdfplumber": _pdfplumber, "pypdfium2": _pypdfium2,
    "pptx": _pptx, "docx": _docx, "openpyxl": _openpyxl,
    "calamine": _calamine, "striprtf": _striprtf,
}  # fmt: skip


def _all(candidate: str, paths: list[Path]) -> None:
    """Prints a result a line. The library is loaded once; each file is read in a fork that may die."""
    importlib.import_module(_NEEDED[candidate])
    for path in paths:
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(_TIMEOUT_SECONDS)
            with open(write_end, "w") as out:
                json.dump(_one(candidate, path), out)
                out.flush()
                os._exit(0)
        os.close(write_end)
        with open(read_end) as answer:
            line = answer.read()
        os.waitpid(child, 0)
        print(line or json.dumps(["ended without an answer", 0, 0, ""]), flush=True)


def _one(candidate: str, path: Path) -> list[Any]:
    started = time.perf_counter()
    try:
        text, refusal = _CANDIDATES[candidate](path), ""
    except BaseException as error:  # a Rust panic is no Exception
        text, refusal = "", f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - started
    # Not getrusage: its peak is inherited from whoever started this process.
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return [refusal[:200], seconds, int(peak[1]) / 1024 if peak else 0, text]


def measure(candidate: str, paths: list[Path]) -> list[Result]:
    """Reads `paths` in a process that loads nothing else."""
    command = [sys.executable, "-m", "loadtests.bench_parsing", "--one", candidate, *map(str, paths)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return [Result(*json.loads(line)) for line in done.stdout.splitlines()]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def word_recall(expected: str, found: str) -> float:
    """Share of the expected words, counted with repetition, that were found."""
    wanted = Counter(_words(expected))
    return (wanted & Counter(_words(found))).total() / max(1, wanted.total())


def _rows(text: str) -> Counter[tuple[str, ...]]:
    rows: Counter[tuple[str, ...]] = Counter()
    for line in text.splitlines():
        if line.strip().startswith("|") and re.search(r"\w", line):
            cells = [" ".join(_words(cell)) for cell in line.strip().strip("|").split("|")]
            rows[tuple(cell for cell in cells if cell)] += 1
    return rows


def cell_recall(expected: str, found: str) -> float | None:
    """Share of the expected table cells found as a cell of a table; None where no table is expected."""
    wanted, had = (Counter(cell for row in _rows(text).elements() for cell in row) for text in (expected, found))
    return (wanted & had).total() / wanted.total() if wanted else None


def order(expected: str, found: str) -> float:
    """Share of the words that stand in the same order: 1 when reading goes as expected (difflib's ratio)."""
    return difflib.SequenceMatcher(None, _words(expected), _words(found), autojunk=False).ratio()


def _table(head: list[str], rows: list[list[str]]) -> str:
    cells = [[cell.replace("|", "/").replace("\n", " ") for cell in row] for row in (head, ["---"] * len(head), *rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


def report(folder: Path, candidates: list[str]) -> str:
    """The whole comparison as Markdown."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".md"]
    results: dict[tuple[str, Path], Result] = {}
    for candidate in candidates:
        own = [path for path in files if path.suffix.lower() in _READS.get(candidate, (path.suffix.lower(),))]
        for path, result in zip(own, measure(candidate, own), strict=True):
            results[candidate, path] = result
    rows: list[list[str]] = []
    for path in files:
        row = [str(path.relative_to(folder))]
        for candidate in candidates:
            one = results.get((candidate, path))
            said = one and (one.refusal[:60] or f"{len(one.text)}")
            row.append(f"{one.seconds:.2f} s, {one.peak_mebibytes:.0f} MiB, {said}" if one else "")
        rows.append(row)
    parts = [_table(["file", *candidates], rows), _sums(results, candidates), _against_expected(results, folder)]
    return "\n\n".join(parts)


def _sums(results: dict[tuple[str, Path], Result], candidates: list[str]) -> str:
    rows: list[list[str]] = []
    for candidate in candidates:
        own = [one for (name, _), one in results.items() if name == candidate]
        with_text = sum(bool(one.text.strip()) for one in own)
        refused = sum(bool(one.refusal) for one in own)
        seconds = sum(one.seconds for one in own)
        peak = max((one.peak_mebibytes for one in own), default=0)
        texts = [str(len(own)), str(with_text), str(refused), str(len(own) - with_text - refused)]
        rows.append([candidate, *texts, f"{seconds:.1f}", f"{peak:.0f}"])
    return _table(["library", "files", "text", "refused", "empty success", "seconds", "peak MiB"], rows)


def _against_expected(results: dict[tuple[str, Path], Result], folder: Path) -> str:
    rows: list[list[str]] = []
    for (candidate, path), one in sorted(results.items(), key=lambda item: (str(item[0][1]), item[0][0])):
        expected_path = path.parent / "expected_outputs" / f"{path.stem}.md"
        if path.suffix.lower() != ".pdf" or not expected_path.exists():
            continue
        expected = expected_path.read_text()
        cells = cell_recall(expected, one.text)
        scores = [f"{word_recall(expected, one.text):.2f}", "" if cells is None else f"{cells:.2f}"]
        rows.append([str(path.relative_to(folder)), candidate, *scores, f"{order(expected, one.text):.2f}"])
    return _table(["file", "library", "word recall", "cell recall", "order"], rows)


def main() -> None:
    """Prints the comparison."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.bench_parsing", description=__doc__)
    parser.add_argument("paths", type=Path, nargs="+", metavar="folder")
    parser.add_argument("--only", nargs="*", default=list(_CANDIDATES), help="candidates to compare")
    parser.add_argument("--one", metavar="CANDIDATE", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        _all(arguments.one, arguments.paths)
        return
    present = [name for name in arguments.only if importlib.util.find_spec(_NEEDED[name].split(".")[0])]
    print(report(arguments.paths[0], present))


if __name__ == "__main__":
    main()
