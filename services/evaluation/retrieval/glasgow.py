"""Reads the SMART files of the Glasgow test collections: Cranfield, MEDLINE, CISI and ADI.

http://ir.dcs.gla.ac.uk/resources/test_collections/
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from services.evaluation.retrieval.collection import BrokenCollection, Collection, Passage, joined

_FIELD = re.compile(r"\.([A-Z])\s*")


@dataclass(frozen=True)
class Files:
    """Where a collection's parts are, and how its judgements are written.

    `relevant` is told the columns after question and passage. `by_order`: questions are numbered as they come, whatever
    number is printed there. `passage_column` counts from 0.
    """

    documents: str
    questions: str
    judgements: str
    floor: float
    passage_column: int = 1
    by_order: bool = False
    relevant: Callable[[list[str]], bool] = lambda _: True


# Cranfield: judgements count the questions from 1 to 225 as they come, the file prints other numbers; codes 1 to 4 are
# degrees of relevance whose direction its documents contradict each other about, -1 is "no interest".
FILES = {
    "cranfield": Files(
        "cran.all.1400",
        "cran.qry",
        "cran.qrels",
        floor=0.20,
        by_order=True,
        relevant=lambda rest: rest[0] in ("1", "2", "3", "4"),
    ),
    "medline": Files("MED.ALL", "MED.QRY", "MED.REL", floor=0.45, passage_column=2),
    "cisi": Files("CISI.ALL", "CISI.QRY", "CISI.REL", floor=0.20),
    "adi": Files("ADI.ALL", "ADI.QRY", "ADI.REL", floor=0.20),
}


def is_glasgow(folder: Path) -> bool:
    """Whether a folder holds one of them."""
    files = FILES.get(folder.name)
    return files is not None and (folder / files.documents).is_file()


def load(folder: Path) -> Collection:
    """The collection that the folder's name says. Raises BrokenCollection."""
    name = folder.name
    files = FILES[name]
    passages = [_passage(number, fields) for number, fields in _records(folder / files.documents)]
    questions: list[tuple[str, str]] = []
    for order, (number, fields) in enumerate(_records(folder / files.questions), 1):
        text = _flat(f"{fields.get('T', '')} {fields.get('W', '')}")
        questions.append((str(order) if files.by_order else number, text))
    return joined(name, passages, questions, list(_judged(folder / files.judgements, files)), floor=files.floor)


def _passage(number: str, fields: dict[str, str]) -> Passage:
    title, text = _flat(fields.get("T", "")), _flat(fields.get("W", ""))
    # Cranfield's texts begin with their title once more.
    return Passage(number, text.removeprefix(title).strip() if title else text, title, "en", number)


def _records(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Number and fields by letter (T title, W words, ...) of each record."""
    number, letter = "", ""
    fields: dict[str, list[str]] = {}
    for line in path.read_text(encoding="latin-1").splitlines():
        if line.startswith(".I"):
            if number:
                yield number, {name: "\n".join(lines) for name, lines in fields.items()}
            number, letter, fields = _plain(line[2:]), "", {}
        elif found := _FIELD.fullmatch(line):
            letter = found[1]
        elif letter:
            fields.setdefault(letter, []).append(line)
    if not number:
        raise BrokenCollection(f"{path.parent.name}: {path.name} holds no records")
    yield number, {name: "\n".join(lines) for name, lines in fields.items()}


def _judged(path: Path, files: Files) -> Iterator[tuple[str, str]]:
    for line in path.read_text(encoding="latin-1").splitlines():
        columns = line.split()
        if not columns:
            continue
        if len(columns) < 3:
            raise BrokenCollection(f"{path.parent.name}: {path.name}: {line!r}")
        if files.relevant(columns[2:]):
            yield _plain(columns[0]), _plain(columns[files.passage_column])


def _plain(number: str) -> str:
    return number.strip().lstrip("0") or "0"


def _flat(text: str) -> str:
    return " ".join(text.split())
