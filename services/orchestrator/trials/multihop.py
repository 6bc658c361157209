"""How many of the passages that a multi-hop question needs each strategy finds.

`python -m services.orchestrator.trials.multihop FOLDER --model-url URL` prints a table. FOLDER holds HotpotQA's and
MuSiQue's samples with their corpora (`hotpotqa_train.json`, `hotpotqa_train_corpus.json`, …). Search is BM25 over the
whole corpus, the same for all, so what differs is what each strategy asks for. With the stand-in as model the figures
say what a few rules can take apart, not what a model would: of most of these questions it sees one step only.
"""

import argparse
import asyncio
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from services.orchestrator.agent import Agent
from services.orchestrator.arguments import TypedForm
from services.orchestrator.dispatch import Dispatcher, ToolSet
from services.orchestrator.events import Event, Finished, Planned
from services.orchestrator.model import Model
from services.orchestrator.openai_model import OpenAIModel
from services.orchestrator.planning.planner import Planner
from services.orchestrator.result_cache import MemoryStore, ResultCache
from services.orchestrator.results import Passage, Passages
from services.orchestrator.routing.router import AskTheModel
from services.orchestrator.strategies.plan import Plan
from services.orchestrator.strategies.registry import strategies
from services.orchestrator.task import Task
from services.orchestrator.tools import Tool, VectorSearch
from services.orchestrator.turn_cache import CacheMode

_STRATEGIES = ("rag", "react", "plan")
_K1, _B = 1.5, 0.75
_WORD = re.compile(r"\w+")
_ABOUT = "Searches the documents. NOT for counts or sums."


@dataclass(frozen=True)
class Question:
    """A question and the ids of the passages that it needs."""

    text: str
    needs: frozenset[str]


class Shelf:
    """BM25 (Robertson & Zaragoza 2009) over passages by id."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._counts = {name: Counter(_words(text)) for name, text in texts.items()}
        self._holders: dict[str, list[str]] = defaultdict(list)
        for name, counts in self._counts.items():
            for word in counts:
                self._holders[word].append(name)
        self._lengths = {name: counts.total() for name, counts in self._counts.items()}
        self._mean = sum(self._lengths.values()) / len(texts)

    def search(self, query: str, top_k: int) -> list[Passage]:
        """The best passages."""
        scores: dict[str, float] = defaultdict(float)
        for word in set(_words(query)):
            holders = self._holders.get(word, [])
            rarity = math.log(1 + (len(self._texts) - len(holders) + 0.5) / (len(holders) + 0.5))
            for name in holders:
                often, norm = self._counts[name][word], 1 - _B + _B * self._lengths[name] / self._mean
                scores[name] += rarity * often * (_K1 + 1) / (often + _K1 * norm)
        best = sorted(scores, key=lambda name: (-scores[name], name))[:top_k]
        return [Passage(name, name, "", "", 0, "", "en", self._texts[name], score=scores[name]) for name in best]


@dataclass
class Found:
    """What one strategy found over all questions."""

    questions: int = 0
    share: float = 0
    complete: int = 0
    passages: int = 0
    turns: int = 0
    planned: int = 0

    def add(self, question: Question, ids: set[str], events: Sequence[Event]) -> None:
        """Counts one run."""
        held = len(question.needs & ids)
        self.questions += 1
        self.share += held / len(question.needs)
        self.complete += held == len(question.needs)
        self.passages += len(ids)
        self.turns += next(event.iterations for event in events if isinstance(event, Finished))
        self.planned += any(isinstance(event, Planned) for event in events)

    def row(self, sample: str, strategy: str) -> str:
        """A line of the table."""
        told = (self.share, self.complete, self.passages, self.turns, self.planned)
        cells = " | ".join(f"{value / self.questions:.2f}" for value in told)
        return f"| {sample} | {strategy} | {self.questions} | {cells} |"


def hotpotqa(folder: Path) -> tuple[list[Question], Shelf]:
    """The sample; a passage is known by its title."""
    asked = json.loads((folder / "hotpotqa_train.json").read_text(encoding="utf-8"))
    corpus = json.loads((folder / "hotpotqa_train_corpus.json").read_text(encoding="utf-8"))
    questions = [Question(one["question"], frozenset(title for title, _ in one["supporting_facts"])) for one in asked]
    return questions, Shelf({title: f"{title}. {''.join(lines)}" for title, lines in corpus.items()})


def musique(folder: Path) -> tuple[list[Question], Shelf]:
    """The sample; a passage is known by its title and text, since titles repeat."""
    asked = json.loads((folder / "musique_train.json").read_text(encoding="utf-8"))
    corpus = json.loads((folder / "musique_train_corpus.json").read_text(encoding="utf-8"))
    texts = {f"{one['title']}. {one['text']}": "" for one in corpus}
    ids = {text: f"p{number}" for number, text in enumerate(texts)}
    questions: list[Question] = []
    for one in asked:
        needed = (f"{each['title']}. {each['paragraph_text']}" for each in one["paragraphs"] if each["is_supporting"])
        questions.append(Question(one["question"], frozenset(ids[text] for text in needed)))
    return questions, Shelf({name: text for text, name in ids.items()})


async def measured(questions: Sequence[Question], shelf: Shelf, model: Model, top_k: int) -> Mapping[str, Found]:
    """What each strategy finds; questions one after the other."""
    agent = Agent(strategies(model, AskTheModel(), Plan(Planner(model), model, model)))
    found = {name: Found() for name in _STRATEGIES}
    for question in questions:
        for name in _STRATEGIES:
            ids = set[str]()
            tools = Dispatcher(ToolSet({"vector_search": _tool(shelf, top_k, ids)}), ResultCache(MemoryStore()))
            tools.cache_mode = CacheMode.OFF
            events = [event async for event in agent.run(Task(question.text, strategy=name), tools)]
            found[name].add(question, ids, events)
    return found


def _tool(shelf: Shelf, top_k: int, ids: set[str]) -> Tool:
    async def call(arguments: VectorSearch, seconds: float) -> Passages:
        passages = shelf.search(arguments.query, top_k)
        ids.update(one.document_id for one in passages)
        return Passages(tuple(passages))

    return Tool("vector_search", "retrieval", _ABOUT, TypedForm(VectorSearch), Passages, call, 5)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


async def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model-url", required=True, help="OpenAI-compatible, with /v1")
    parser.add_argument("--model-name", default="meta-llama/Llama-3.1-70B-Instruct")
    parser.add_argument("--top-k", type=int, default=5)
    chosen = parser.parse_args()
    model = OpenAIModel(chosen.model_url, chosen.model_name, lambda: "none")
    print("| sample | strategy | questions | needed found | all found | passages | model turns | took apart |")
    print("|---|---|---|---|---|---|---|---|")
    for name, read in (("hotpotqa", hotpotqa), ("musique", musique)):
        for strategy, found in (await measured(*read(chosen.folder), model, chosen.top_k)).items():
            print(found.row(name, strategy), flush=True)
    await model.close()


if __name__ == "__main__":
    asyncio.run(_main())
