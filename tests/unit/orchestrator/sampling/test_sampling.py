"""Which answers are offered to evaluation, what of them, and that no answer notices."""

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from services.orchestrator.events import CallStarted, Finish, Finished, Shown, Text, Timings
from services.orchestrator.model import Usage
from services.orchestrator.results import Page, Passage, Rows
from services.orchestrator.sampling.anonymous import Names, anonymous
from services.orchestrator.sampling.choice import is_chosen
from services.orchestrator.sampling.finished_answer import answer_of
from services.orchestrator.sampling.outbox import Outbox
from services.orchestrator.sampling.sampler import Sampler
from services.orchestrator.task import Task
from services.runtime.errors import DependencyFailed, Overloaded
from services.runtime.recognition.folding import fold
from services.runtime.recognition.identifiers import find_identifiers
from services.runtime.tenants import TenantDirectory

QUESTION = "What penalty applies to ana.perez@acme.test?"
PASSAGE = Passage(
    "doc", "1", "Contract", "c.pdf", 1, "8.3", "en", "Call 612 345 678 for ana.perez@acme.test.", score=0.7
)
ARGUMENTS = '{"query": "penalty ana.perez@acme.test", "top_k": 3}'


def finished(answer_id="ans_1"):
    return Finished(answer_id, Finish.ANSWERED, "", 2, Usage(10, 5), Timings(1, 0.5, 0, 0.1), 0)


def events():
    return [
        CallStarted(3, "c1", "vector_search", ARGUMENTS),
        CallStarted(5, "c2", "sql_query", "not JSON"),
        Text("Ask ana.perez"),
        Text("@acme.test [1]."),
        Shown(2, Rows("SELECT 1", "[]", ("n",), ((1,),), source="main"), False),
        Shown(1, PASSAGE, True),
        Shown(3, Page("https://a.test", "A", "B", ""), False),
    ]


async def stream(happened):
    for event in happened:
        yield event


class Recorder:
    """An evaluation that notes what is offered, and whose tenant acts."""

    def __init__(self, error=None):
        self.offered = asyncio.Queue()
        self.tenants = []
        self.error = error

    async def offer(self, answer, timeout_seconds):
        await self.offered.put(answer)
        if self.error:
            raise self.error

    async def close(self):
        pass


class Hanging(Recorder):
    def __init__(self):
        super().__init__()
        self.begun = asyncio.Event()

    async def offer(self, answer, timeout_seconds):
        self.begun.set()
        await asyncio.Event().wait()


def outcomes(outcome):
    return REGISTRY.get_sample_value("sabueso_orchestrator_answers_offered_total", {"outcome": outcome}) or 0


async def counted(outcome, least):
    async with asyncio.timeout(30):
        while outcomes(outcome) < least:
            await asyncio.sleep(0.01)


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "none.yaml").write_text("id: none\n")
    (tmp_path / "all.yaml").write_text("id: all\nevaluation: {sample: 1, metrics: [faithfulness]}\n")
    (tmp_path / "open.yaml").write_text("id: open\nevaluation: {sample: 1, anonymise: false}\n")
    return TenantDirectory(tmp_path)


async def run(sampler, tenant, task=None, happened=None, end=None):
    """What the caller of a run gets."""
    sample = sampler.sample(tenant, task or Task(QUESTION))
    inner = sample.seen(stream([*(happened or events()), end or finished()]))
    return sample, [event async for event in sample.ended(inner)]


# ---- the choice


@pytest.mark.parametrize("share", [0.05, 0.1, 0.5])
def test_the_share_is_kept_on_the_average(share):
    chosen = sum(is_chosen(f"ans_{n:x}", share) for n in range(40_000)) / 40_000
    assert abs(chosen - share) < 5 * (share * (1 - share) / 40_000) ** 0.5


@given(st.text(min_size=1), st.floats(0, 1), st.floats(0, 1))
def test_the_choice_is_stable_and_grows_with_the_share(answer_id, one, other):
    low, high = sorted((one, other))
    assert is_chosen(answer_id, low) == is_chosen(answer_id, low)
    assert is_chosen(answer_id, low) <= is_chosen(answer_id, high)
    assert not is_chosen(answer_id, 0)
    assert is_chosen(answer_id, 1)


# ---- what is offered


def test_an_answer_is_what_was_asked_said_shown_and_called():
    answer = answer_of(QUESTION, events(), finished())
    assert (answer.answer, answer.language) == ("Ask ana.perez@acme.test [1].", "en")
    assert [one.source for one in answer.passages] == ["doc", "main", "https://a.test"]
    assert [one.score for one in answer.passages] == [0.7, None, None]
    assert [(one.tool, one.turn) for one in answer.calls] == [("vector_search", 0), ("sql_query", 1)]


def test_personal_data_gets_the_same_name_everywhere():
    answer = anonymous(answer_of(QUESTION, events(), finished()))
    assert answer.question == "What penalty applies to [EMAIL_1]?"
    assert answer.answer == "Ask [EMAIL_1] [1]."
    assert answer.passages[0].text == "Call [PHONE_1] for [EMAIL_1]."
    assert json.loads(answer.calls[0].arguments_json) == {"query": "penalty [EMAIL_1]", "top_k": 3}
    assert answer.calls[1].arguments_json == "not JSON"


PROSE = "La penalización por retraso es mensual, según la cláusula octava del contrato. " * 30


@pytest.mark.parametrize(
    "said",
    [
        "ana.perez@acme.test",
        "ana.perez [at] acme [dot] test",
        "ana.perez arroba acme punto test",
        "ES91 2100 0418 4502 0005 1332",
        "GB82WEST12345698765432",
        "2100 0418 45 0200051332",
        "4111 1111 1111 1111",
        "12345678Z",
        "X1234567L",
        "536-90-4399",
        "612 345 678",
        "+34 612345678",
        "(415) 555-2671",
        "10.1.2.3",
        "fd12:3456:789a::1",
        "db01.intranet",
        "\\\\server01\\share",
        "sk-abcdEFGH1234567890",
        "ghp_abcdefghijkl",
        "AKIAIOSFODNN7EXAMPLE",
        "postgresql://ana:hunter22@db/x",
        "password: hunter22",
        "d41d8cd98f00b204e9800998ecf8427e",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
    ],
)
def test_all_that_the_recognisers_find_is_taken_out_of_long_texts(said):
    assert next(find_identifiers(fold(said).text), None), "the recognisers know it"
    redacted = Names().redacted(f"{PROSE} {said} {PROSE}")
    assert said not in redacted
    assert len(redacted) < len(f"{PROSE} {said} {PROSE}") + 20


@pytest.mark.parametrize("before", [0, 1_080, 1_480, 1_499, 3_480, 7_000])
def test_what_stands_across_two_windows_is_found_too(before):
    said = f"{'word ' * (before // 5)}{'x' * (before % 5)} ana.perez@acme.test y"
    assert "acme" not in Names().redacted(said)


def test_a_number_that_is_a_telephone_does_not_stay_in_arguments():
    assert json.loads(Names().redacted_json('{"params": [612345678, 7, true, null, 0.5]}')) == {
        "params": ["[PHONE_1]", 7, True, None, 0.5]
    }


@settings(max_examples=30)
@given(st.recursive(st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(), st.lists, max_leaves=9))
def test_json_stays_json(value):
    json.loads(Names().redacted_json(json.dumps(value)))


@given(st.text(max_size=300))
def test_what_has_been_redacted_holds_nothing_more_to_redact(text):
    once = Names().redacted(text)
    assert Names().redacted(once) == once


# ---- the run


async def test_without_a_word_in_the_tenants_file_nothing_is_looked_at(directory):
    recorder = Recorder()
    outbox = Outbox(recorder, recorder.tenants.append)
    sample, told = await run(Sampler(directory, "m", outbox), "none")
    assert told == [*events(), finished()]
    assert sample.task.include_evidence is False
    _, told = await run(Sampler(directory, "m", None), "all")
    assert told == [*events(), finished()]
    assert recorder.offered.empty()
    await outbox.close()


async def test_a_chosen_answer_is_offered_for_its_tenant_and_the_caller_sees_no_difference(directory):
    recorder = Recorder()
    outbox = Outbox(recorder, recorder.tenants.append)
    sample, told = await run(Sampler(directory, "llama", outbox), "all")
    assert sample.task.include_evidence
    assert told == [event for event in [*events(), finished()] if not isinstance(event, Shown)]
    answer = await asyncio.wait_for(recorder.offered.get(), 30)
    assert (answer.answer_id, answer.model, answer.metrics) == ("ans_1", "llama", ("faithfulness",))
    assert "acme" not in repr(answer)
    assert recorder.tenants == ["all"]
    await outbox.close()


async def test_who_asks_for_the_evidence_gets_it_still(directory):
    recorder = Recorder()
    outbox = Outbox(recorder, recorder.tenants.append)
    _, told = await run(Sampler(directory, "m", outbox), "open", Task(QUESTION, include_evidence=True))
    assert told == [*events(), finished()]
    answer = await asyncio.wait_for(recorder.offered.get(), 30)
    assert answer.question == QUESTION
    await outbox.close()


async def test_the_final_id_is_the_one_that_counts(directory):
    recorder = Recorder()
    outbox = Outbox(recorder, recorder.tenants.append)
    sample = Sampler(directory, "m", outbox).sample("all", Task(QUESTION))

    async def renamed(inner):
        async for event in inner:
            yield finished("mine") if isinstance(event, Finished) else event

    async for _ in sample.ended(renamed(sample.seen(stream([*events(), finished()])))):
        pass
    assert (await asyncio.wait_for(recorder.offered.get(), 30)).answer_id == "mine"
    await outbox.close()


async def test_a_run_that_is_given_up_is_not_offered(directory):
    recorder = Recorder()
    outbox = Outbox(recorder, recorder.tenants.append)
    sample = Sampler(directory, "m", outbox).sample("all", Task(QUESTION))
    inner = sample.ended(sample.seen(stream([*events(), finished()])))
    await anext(inner)
    await inner.aclose()
    await outbox.close()
    assert recorder.offered.empty()


# ---- the way there


async def test_a_hung_evaluation_costs_no_answer_and_what_has_no_room_is_dropped(directory):
    hanging, dropped = Hanging(), outcomes("dropped")
    outbox = Outbox(hanging, lambda tenant: None, most_waiting=2, senders=1, timeout_seconds=600)
    sampler = Sampler(directory, "m", outbox)
    await run(sampler, "all")
    await asyncio.wait_for(hanging.begun.wait(), 30)
    for _ in range(4):
        _, told = await run(sampler, "all")
        assert isinstance(told[-1], Finished)
    assert outcomes("dropped") == dropped + 2
    await outbox.close()


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Overloaded("full"), "refused"),
        (DependencyFailed("away", dependency="evaluation"), "lost"),
        (RuntimeError("a bug"), "lost"),
    ],
)
async def test_what_evaluation_does_not_take_is_counted_and_the_next_is_sent(error, outcome):
    recorder, before, sent = Recorder(error), outcomes(outcome), outcomes("sent")
    outbox = Outbox(recorder, lambda tenant: None, senders=1)
    answer = answer_of(QUESTION, events(), finished())
    outbox.put("all", answer, anonymise=False)
    await counted(outcome, before + 1)
    recorder.error = None
    outbox.put("all", answer, anonymise=False)
    await counted("sent", sent + 1)
    await outbox.close()
