"""What the agents that are measured side by side have in common: the script, and the loop that times them.

A worker reads a number a line and answers with the milliseconds of so many answers, as JSON: those that passed, and
those of the processor. Standard library only: the peers run in an environment of their own.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable

QUESTION = "How many contracts did we sign in 2025, and which penalties do they have?"
SYSTEM = "You answer from evidence, with citations. " * 40  # about the length of ours
CALLS = (
    ("vector_search", {"query": "penalties in the contracts of 2025", "top_k": 5}),
    ("sql_query", {"query": "SELECT count(*) FROM contracts WHERE year = $1", "params": [2025]}),
)
THOUGHT = "I need the count and the clauses."
PASSAGES = tuple(f"Clause {n}: a penalty of {n} % a month applies to late delivery. " * 8 for n in range(1, 6))
ANSWER = (
    "In 2025 there were 47 contracts, as the count over the whole table of the contracts of that year tells us [6]. "
    "Late delivery is dealt with in the same way in all of them, and none of the clauses that were found leaves it. "
    "A penalty of 2 % a month applies to late delivery, as clause 2 has it [2]. "
    "A penalty of 3 % a month applies to late delivery, as clause 3 has it [3]. "
    "A penalty of 5 % a month applies to late delivery, as clause 5 has it [5]. "
    "The other clauses that were found say much the same of late delivery, with other penalties for a month of it. "
    "Nothing else was found that would have to do with penalties."
)
PIECES = tuple(ANSWER[start : start + 6] for start in range(0, len(ANSWER), 6))


def serve(answer: Callable[[], Awaitable[str]]) -> None:
    """Times `answer`, which gives the text that a reader has seen, until there is no more input."""
    asyncio.run(_serve(answer))


async def _serve(answer: Callable[[], Awaitable[str]]) -> None:
    while line := await asyncio.to_thread(sys.stdin.readline):
        times: list[tuple[float, float]] = []
        for _ in range(int(line)):
            started, worked = time.perf_counter(), time.process_time()
            said = await answer()
            times.append(((time.perf_counter() - started) * 1000, (time.process_time() - worked) * 1000))
            if said.strip() != ANSWER.strip():
                raise SystemExit(f"this is another answer: {said[:200]!r}")
        print(json.dumps(times), flush=True)
