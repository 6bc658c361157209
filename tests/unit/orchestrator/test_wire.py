"""Runs as messages, and as records from which they are told again."""

import random

from services.orchestrator import wire
from services.orchestrator.events import Chosen, Cited, Finish, Finished, Shown, Text, Timings
from services.orchestrator.model import Usage
from services.orchestrator.results import Passage
from services.orchestrator.sessions.conversation import Bounds, Turn

END = Finished("ans_1", Finish.ANSWERED, "", 2, Usage(10, 2), Timings(0, 0, 0, 0), 0)


def told(*events):
    return [wire.run_response(event) for event in events]


def test_a_record_gives_back_what_was_told_and_the_memo():
    happened = told(Chosen("react", "as asked"), Text("¿Sí? "), Text("Sí [1]."))
    kept = wire.recorded(wire.record(happened, END, memo='{"a": "ñ"}'))
    assert [*kept.events] == [*happened, *told(END)]
    assert kept.memo == '{"a": "ñ"}'


def test_an_answer_with_all_of_its_evidence_is_not_too_large_to_be_kept():
    words = [bytes(random.Random(n).choices(b"abcdefghijklmnopqrstuvwxyz", k=2 + n % 9)).decode() for n in range(3_000)]
    chosen = random.Random(7)
    # As many as are looked for at most, each of the size that is read where small passages are searched.
    sources = [
        Passage(f"d{n}", "c", "Title", "d.pdf", 1, "1", "en", " ".join(chosen.choices(words, k=1_500)))
        for n in range(20)
    ]
    shown = [Shown(mark, source, cited=True) for mark, source in enumerate(sources, 1)]
    happened = told(*(Cited(one.mark, one.source) for one in shown), *shown)
    assert sum(one.ByteSize() for one in happened) > 256 * 1024
    record = wire.record(happened, END, memo="")
    assert Bounds().kept_record(Turn("ans_1", (), record=record)) == record
