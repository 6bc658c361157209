"""Reads tau2-bench's bank (Barres et al. 2025) as retrieval: which internal documents does a customer's task need?

The text of a task is a briefing for whoever plays the customer, not a search: low figures are its nature.
"""

import gzip
import json
from pathlib import Path

from services.evaluation.retrieval.collection import Collection, Passage, joined

NAME = "tau2-banking"
_FOLDER = "banking_knowledge"


def is_tau2(folder: Path) -> bool:
    """Whether a folder holds the bank's documents."""
    return (folder / _FOLDER / "documents.json.gz").is_file()


def load(folder: Path) -> Collection:
    """Raises BrokenCollection."""
    with gzip.open(folder / _FOLDER / "documents.json.gz", "rt", encoding="utf-8") as file:
        documents = json.load(file)
    tasks = json.loads((folder / _FOLDER / "tasks.json").read_text(encoding="utf-8"))
    passages = [Passage(one["id"], one["content"], one["title"], "en", one["id"]) for one in documents]
    questions = [(one["id"], one["user_scenario"]["instructions"]) for one in tasks]
    judged = [(one["id"], needed) for one in tasks for needed in one["required_documents"]]
    return joined(NAME, passages, questions, judged, floor=0.10)
