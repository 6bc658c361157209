"""How often the stand-in answers what passages answer, and refuses what they do not.

`python -m services.understudy.trials.refusals [--folder XQUAD] [--half dev|test]` prints a table. Each question of
XQuAD gets eight passages, as search would give them: all of its article, filled up from other articles; once with the
paragraph that answers it, and once without. Articles are halved once and for all: what is tuned is tuned on `dev`.
"""

import argparse
import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.understudy.evidence import Passage
from services.understudy.extract import extract

_SHIPPED = Path("tests/data/evaluation/collections/xquad")


@dataclass(frozen=True)
class Case:
    """A question, the passage that answers it, the others, and the words of the answer where the file has them."""

    question: str
    right: Passage
    others: tuple[Passage, ...]
    answer: str


@dataclass(frozen=True)
class Figures:
    """Shares of the questions. `right`: of the answered ones, the quotes hold the answer; 1 where that is not known."""

    count: int
    answered: float
    right: float
    refused: float


def cases(folder: Path, asked: str, read: str, half: str, passages: int) -> Iterator[Case]:
    """Questions in the language `asked` over paragraphs in the language `read`, each `es` or `en`."""
    questions, paragraphs = (_articles(folder, one) for one in (asked, read))
    titles = sorted(paragraphs, key=lambda title: hashlib.sha256(f"xquad\n{title}".encode()).digest())
    middle = (len(titles) + 1) // 2
    for title in titles[:middle] if half == "dev" else titles[middle:]:
        own = [_passage(title, index, one["context"]) for index, one in enumerate(paragraphs[title])]
        for index, paragraph in enumerate(questions[title]):
            for one in paragraph["qas"]:
                chance = random.Random(one["id"])
                others = own[:index] + own[index + 1 :]
                more = max(0, passages - len(own))
                for other in chance.sample([name for name in titles if name != title], more):
                    at = chance.randrange(len(paragraphs[other]))
                    others.append(_passage(other, at, paragraphs[other][at]["context"]))
                chance.shuffle(others)
                said = [each for each in paragraphs[title][index]["qas"] if each["id"] == one["id"]]
                answers = said[0].get("answers")
                yield Case(one["question"], own[index], tuple(others), answers[0]["text"] if answers else "")


def measured(of: Sequence[Case]) -> Figures:
    """What the stand-in does with them."""
    answered = right = refused = 0
    for case in of:
        with_it = _numbered([case.others[0], case.right, *case.others[1:]])
        quotes = extract(case.question, with_it)
        answered += bool(quotes)
        right += any(case.answer.casefold() in quote.text.casefold() for quote in quotes)
        refused += not extract(case.question, _numbered(case.others))
    return Figures(len(of), answered / len(of), right / max(1, answered), refused / len(of))


def _articles(folder: Path, language: str) -> dict[str, list[dict[str, Any]]]:
    whole = json.loads((folder / f"xquad.{language}.json").read_text(encoding="utf-8"))
    return {one["title"]: one["paragraphs"] for one in whole["data"]}


def _passage(title: str, index: int, text: str) -> Passage:
    return Passage(0, f"{title}-{index}", "", "", text)


def _numbered(passages: Sequence[Passage]) -> list[Passage]:
    return [Passage(number, one.document, one.title, one.section, one.text) for number, one in enumerate(passages, 1)]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=_SHIPPED, help="with xquad.en.json and xquad.es.json")
    parser.add_argument("--half", choices=("dev", "test"), default="dev")
    parser.add_argument("--passages", type=int, default=8, help="that search gives")
    chosen = parser.parse_args()
    print("| question | passages | questions | answered | of these right | refused without the passage |")
    print("|---|---|---|---|---|---|")
    for asked, read in (("es", "es"), ("en", "en"), ("es", "en"), ("en", "es")):
        found = measured(list(cases(chosen.folder, asked, read, chosen.half, chosen.passages)))
        print(f"| {asked} | {read} | {found.count} | {found.answered:.3f} | {found.right:.3f} | {found.refused:.3f} |")


if __name__ == "__main__":
    main()
