"""How often the stand-in refuses questions that take for granted what never happened, and answers their true twins.

`python -m services.understudy.trials.false_premises QUESTIONS DOCUMENTS [--half dev|test|all] [--show]` prints a table.
DOCUMENTS is a folder of Markdown files, named by document. Their sections are passages; each question gets those that
share most with it, as search would.
"""

import argparse
import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from services.understudy.evidence import Passage
from services.understudy.extract import Asked, extract
from services.understudy.sql_request import codes
from services.understudy.words import fold, language, stems

_TOP_K, _NAMED_TOP_K = 5, 10
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Question:
    """`says` is empty for one that must be refused."""

    text: str
    says: str = ""


@dataclass(frozen=True)
class Outcome:
    """What the stand-in quoted."""

    question: Question
    quotes: tuple[str, ...]

    @property
    def right(self) -> bool:
        """Refused where it must be; otherwise the answer is among the quotes."""
        if not self.question.says:
            return not self.quotes
        return any(fold(self.question.says) in fold(quote) for quote in self.quotes)


def questions(path: Path, half: str) -> list[Question]:
    """Those of one half, or of both (`all`)."""
    with path.open(encoding="utf-8", newline="") as lines:
        return [Question(one["question"], one["says"]) for one in csv.DictReader(lines) if half in ("all", one["half"])]


def passages(documents: Mapping[str, str]) -> list[Passage]:
    """The sections of Markdown documents by id."""
    return [one for name, text in documents.items() for one in _sections(name, text)]


def asked(question: Question, shelf: Sequence[Passage]) -> Outcome:
    """The question put to the stand-in with the passages that share most with it."""
    words = [stems(f"{one.document} {one.title} {one.section} {one.text}") for one in shelf]
    known = Asked(question.text, words)
    named = [fold(code) for code, _, _ in codes(question.text)]
    scored = [
        (sum(code in fold(f"{one.document} {one.text}") for code in named), known.coverage(own), -index)
        for index, (one, own) in enumerate(zip(shelf, words, strict=True))
    ]
    best = sorted(scored, reverse=True)[: _NAMED_TOP_K if named else _TOP_K]
    found = [shelf[-index] for _, share, index in best if share]
    numbered = [Passage(number, one.document, one.title, one.section, one.text) for number, one in enumerate(found, 1)]
    return Outcome(question, tuple(quote.text for quote in extract(question.text, numbered)))


def _sections(name: str, text: str) -> Iterator[Passage]:
    title = text.partition("\n")[0].removeprefix("# ")
    opening, *rest = _HEADING.split(text)
    yield Passage(0, name, title, "", opening.partition("\n")[2].strip())
    for heading, body in zip(rest[::2], rest[1::2], strict=True):
        yield Passage(0, name, title, heading, body.strip())


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("questions", type=Path)
    parser.add_argument("documents", type=Path)
    parser.add_argument("--half", choices=("dev", "test", "all"), default="dev")
    parser.add_argument("--show", action="store_true", help="what went wrong")
    chosen = parser.parse_args()
    shelf = passages({one.stem: one.read_text(encoding="utf-8") for one in sorted(chosen.documents.glob("*.md"))})
    outcomes = [asked(one, shelf) for one in questions(chosen.questions, chosen.half)]
    print("| questions | language | count | right |")
    print("|---|---|---|---|")
    for kind in ("refused", "answered"):
        for spoken in ("es", "en"):
            own = [one for one in outcomes if language(one.question.text) == spoken]
            own = [one for one in own if bool(one.question.says) == (kind == "answered")]
            print(f"| to be {kind} | {spoken} | {len(own)} | {sum(one.right for one in own) / max(1, len(own)):.3f} |")
    for one in outcomes if chosen.show else ():
        if not one.right:
            print("\n", one.question.text, *one.quotes, sep="\n  ")


if __name__ == "__main__":
    main()
