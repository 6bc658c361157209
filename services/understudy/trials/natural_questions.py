"""How often the stand-in answers everyday questions over short passages, and refuses those without an answer.

`python -m services.understudy.trials.natural_questions QUESTIONS [--half dev|test]` prints both shares.
"""

import argparse
import json
from pathlib import Path

from services.understudy.evidence import Passage
from services.understudy.extract import extract
from services.understudy.trials.false_premises import Outcome, Question


def outcomes(path: Path, half: str) -> list[Outcome]:
    """What the stand-in quotes for each question of a half, or of both (`all`)."""
    found: list[Outcome] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        if half in ("all", one["half"]):
            passages = [Passage(number, f"d{number}", "", "", text) for number, text in enumerate(one["passages"], 1)]
            quotes = tuple(quote.text for quote in extract(one["question"], passages))
            found.append(Outcome(Question(one["question"], one["says"]), quotes))
    return found


def main() -> None:
    """Prints the shares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--half", choices=("dev", "test", "all"), default="dev")
    chosen = parser.parse_args()
    found = outcomes(chosen.questions, chosen.half)
    for name, answered in (("refused", False), ("answered rightly", True)):
        own = [one for one in found if bool(one.question.says) == answered]
        print(f"{name}: {sum(one.right for one in own)} of {len(own)}")


if __name__ == "__main__":
    main()
