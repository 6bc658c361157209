"""Conversations that the orchestrator keeps, over the wire and in a real Valkey."""

import asyncio
import uuid

import grpc
import pytest
from grpc import aio

from sabueso.orchestrator.v1 import orchestrator_pb2 as pb
from services.runtime import errors
from services.runtime.testing import act_as
from tests.integration.test_orchestrator import of, saying, world


@pytest.fixture
def ana():
    return f"ana-{uuid.uuid4().hex[:8]}"


def said_before(it):
    """What the model saw of the conversation, in its last request, without rules and question."""
    said = [one for one in it.model.requests[-1]["messages"] if one["role"] != "system"]
    return [(one["role"], one["content"]) for one in said[:-1]]


async def refusal(asking):
    with pytest.raises(aio.AioRpcError) as caught:
        await asking
    return caught.value.code(), errors.from_rpc(caught.value, "orchestrator")


async def test_a_question_of_a_session_is_answered_with_what_came_before_it(tmp_path, valkey_url, ana):
    async with world(tmp_path, valkey_url=valkey_url, session_timeout_seconds=10) as it:
        act_as("acme", principal=ana)
        it.model.replies = [saying("Hola, Ana."), saying("Te llamas Ana."), saying("Sí.")]
        first = await it.ask("Soy Ana.", session_id="s-1", history=[pb.Message(role="system", text="Sé breve.")])
        await it.ask("¿Cómo me llamo?", session_id="s-1")
        assert said_before(it) == [("user", "Soy Ana."), ("assistant", "Hola, Ana.")]
        await it.ask("¿Seguro?", session_id="s-1")
        assert len(said_before(it)) == 4
        assert of(first, "degraded") == []


async def test_a_session_is_its_callers_alone(tmp_path, valkey_url, ana):
    async with world(tmp_path, valkey_url=valkey_url, session_timeout_seconds=10) as it:
        act_as("acme", principal=ana)
        it.model.replies = [saying("Hola.")] * 4
        answer = (await it.ask("Soy Ana.", session_id="s-1", store=True))[-1].finished.answer_id
        for tenant, principal in (("acme", f"{ana}2"), ("vault", ana)):
            act_as(tenant, principal=principal)
            await it.ask("¿Quién soy?", session_id="s-1")
            assert said_before(it) == []
            code, _ = await refusal(it.ask("¿Quién soy?", previous_answer_id=answer))
            assert code is grpc.StatusCode.NOT_FOUND


async def test_an_answer_can_be_named_and_followed_twice(tmp_path, valkey_url, ana):
    async with world(tmp_path, valkey_url=valkey_url, session_timeout_seconds=10) as it:
        act_as("acme", principal=ana)
        it.model.replies = [saying(text) for text in ("Uno.", "Dos.", "Tres.")]
        first = f"ans_{uuid.uuid4().hex}"
        responses = await it.ask("¿1?", store=True, answer_id=first)
        assert responses[-1].finished.answer_id == first
        await it.ask("¿2?", store=True, previous_answer_id=first)
        assert said_before(it) == [("user", "¿1?"), ("assistant", "Uno.")]
        await it.ask("¿3?", previous_answer_id=first)
        assert said_before(it) == [("user", "¿1?"), ("assistant", "Uno.")]
        code, error = await refusal(it.ask("¿4?", previous_answer_id="ans_nowhere"))
    assert code is grpc.StatusCode.NOT_FOUND
    assert "ans_nowhere" in error.message


async def test_questions_of_a_session_at_the_same_time_are_all_kept(tmp_path, valkey_url, ana):
    async with world(tmp_path, valkey_url=valkey_url, session_timeout_seconds=10) as it:
        act_as("acme", principal=ana)
        it.model.replies = [saying("Hola.")] * 7
        await asyncio.gather(*(it.ask(f"¿{number}?", session_id="s-1") for number in range(6)))
        await it.ask("¿Y?", session_id="s-1")
        asked = [text for role, text in said_before(it) if role == "user"]
    assert sorted(asked) == [f"¿{number}?" for number in range(6)]


async def test_a_person_can_have_all_of_it_deleted(tmp_path, valkey_url, ana):
    async with world(tmp_path, valkey_url=valkey_url, session_timeout_seconds=10) as it:
        act_as("acme", principal=ana)
        it.model.replies = [saying("Hola.")] * 5
        for session in ("s-1", "s-1", "s-2"):
            await it.ask("Soy Ana.", session_id=session)
        gone = await it.stub.DeleteSession(pb.DeleteSessionRequest(session_id="s-1"))
        assert gone.answer_count == 2
        await it.ask("¿Quién soy?", session_id="s-1")
        assert said_before(it) == []
        assert (await it.stub.DeleteSession(pb.DeleteSessionRequest(everything=True))).answer_count == 2
        await it.ask("¿Quién soy?", session_id="s-2")
        assert said_before(it) == []
        code, _ = await refusal(it.stub.DeleteSession(pb.DeleteSessionRequest(session_id="nowhere")))
        assert code is grpc.StatusCode.NOT_FOUND
        code, _ = await refusal(it.stub.DeleteSession(pb.DeleteSessionRequest()))
        assert code is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_stored_answer_is_told_again_to_its_caller_alone(tmp_path, valkey_url, ana):
    async with world(tmp_path, valkey_url=valkey_url, session_timeout_seconds=10) as it:
        act_as("acme", principal=ana)
        it.model.replies = [saying("Hola, Ana."), saying("Adiós."), saying("Ya.")]
        told = await it.ask("Soy Ana.", store=True, answer_id="ans_told", memo='{"a": "ñ"}')
        kept = await it.stub.GetAnswer(pb.GetAnswerRequest(answer_id="ans_told"))
        assert kept.memo == '{"a": "ñ"}'
        assert [one for one in kept.events if not one.HasField("finished")] == told[:-1]
        assert kept.events[-1].finished.usage == told[-1].finished.usage
        assert kept.events[-1].finished.answer_id == "ans_told"
        await it.ask("Me voy.", session_id="s-1", answer_id="ans_plain")
        code, _ = await refusal(it.stub.GetAnswer(pb.GetAnswerRequest(answer_id="ans_plain")))
        assert code is grpc.StatusCode.NOT_FOUND
        for tenant, principal in (("acme", f"{ana}2"), ("vault", ana)):
            act_as(tenant, principal=principal)
            code, _ = await refusal(it.stub.GetAnswer(pb.GetAnswerRequest(answer_id="ans_told")))
            assert code is grpc.StatusCode.NOT_FOUND
        act_as("acme", principal=ana)
        await it.stub.DeleteSession(pb.DeleteSessionRequest(answer_id="ans_told"))
        code, _ = await refusal(it.stub.GetAnswer(pb.GetAnswerRequest(answer_id="ans_told")))
        assert code is grpc.StatusCode.NOT_FOUND
        for wrong in ("", "a b"):
            code, _ = await refusal(it.stub.GetAnswer(pb.GetAnswerRequest(answer_id=wrong)))
            assert code is grpc.StatusCode.INVALID_ARGUMENT


async def test_answers_of_one_conversation_have_its_id_in_common(tmp_path, valkey_url, ana):
    async with world(tmp_path, valkey_url=valkey_url, session_timeout_seconds=10) as it:
        act_as("acme", principal=ana)
        it.model.replies = [saying("Hola.")] * 5
        ids = []
        for options in (
            {"session_id": "s-1"},
            {"store": True, "answer_id": f"{ana}_1"},
            {"store": True, "answer_id": f"{ana}_2", "previous_answer_id": f"{ana}_1"},
            {"previous_answer_id": f"{ana}_2"},
            {},
        ):
            ids.append((await it.ask("Soy Ana.", **options))[-1].finished.conversation_id)
    assert ids == ["s-1", f"{ana}_1", f"{ana}_1", f"{ana}_1", ""]


async def test_without_its_store_a_question_is_answered_all_the_same_and_says_so(tmp_path):
    async with world(tmp_path, valkey_url="redis://127.0.0.1:1") as it:
        it.model.replies = [saying("Hola.")] * 2
        for options in ({"session_id": "s-1"}, {"previous_answer_id": "ans_1"}):
            responses = await it.ask("Soy Ana.", **options)
            assert [one.service for one in of(responses, "degraded")] == ["sessions"]
            assert responses[-1].finished.answer_id


async def test_where_none_are_kept_a_session_is_refused(tmp_path):
    async with world(tmp_path, session_ttl_seconds=0) as it:
        code, error = await refusal(it.ask("Soy Ana.", session_id="s-1"))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert error.metadata["field"] == "options.session_id"


async def test_the_parts_of_an_answers_time_add_up_to_its_whole(tmp_path):
    async with world(tmp_path, valkey_url="memory:") as it:
        it.model.replies = [saying("Hola.")]
        loop = asyncio.get_running_loop()
        started = loop.time()
        responses = await it.ask("Soy Ana.", session_id="s-1")
        waited_ms = (loop.time() - started) * 1000
    timings = responses[-1].finished.timings
    parts = [timings.model, timings.tools, timings.cache, timings.overhead]
    assert sum(part.ToMicroseconds() for part in parts) == pytest.approx(timings.total.ToMicroseconds(), abs=1_000)
    assert timings.total.ToMicroseconds() / 1000 <= waited_ms
