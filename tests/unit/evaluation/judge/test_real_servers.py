"""The judge's wire against servers that were not made for it. What they answer is no judgement, and no figure."""

import asyncio
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from services.evaluation.answered import Answered, Passage
from services.evaluation.judge.openai_judge import OpenAIJudge
from services.evaluation.judge.prompts import Prompts
from services.evaluation.metrics.catalogue import METRICS, named, score_all
from services.evaluation.metrics.embedder import ScriptedEmbedder
from services.evaluation.score import Status
from services.understudy import server as understudy
from services.understudy.config import Settings

LLAMA = Path(".sabueso/clients/llama")
LLAMA_SCRIPT = Path(__file__).parents[3] / "integration/llama_server.py"
ANSWERED = Answered(
    "¿Cuál es el plazo?", "El plazo es de 60 días.", "es", passages=(Passage("El plazo es de 60 días.", "c7"),)
)


@asynccontextmanager
async def understudy_server():
    settings = Settings(host="127.0.0.1", port=0, model_name="stand-in")
    server = understudy.build(settings)
    with understudy.listen(settings) as listener:
        running = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        finally:
            server.should_exit = True
            await running


async def judged(url, name, metrics=METRICS, **options):
    judge = OpenAIJudge(url, name, Prompts.shipped(), **options)
    try:
        scores = await score_all(metrics, ANSWERED, None, judge, ScriptedEmbedder({}))
        return {one.metric: one for one in scores}, judge.usage
    finally:
        await judge.close()


def assert_each_has_a_value_or_a_reason(scores):
    for score in scores.values():
        assert score.status in {Status.OK, Status.NO_CLAIMS, Status.JUDGE_FAILED, Status.NO_REFERENCE}
        assert score.value is None or 0 <= score.value <= 1


async def test_the_stand_in_for_the_model_answers_in_form_and_every_metric_has_a_value_or_a_reason():
    async with understudy_server() as url:
        scores, usage = await judged(url, "stand-in")
    assert_each_has_a_value_or_a_reason(scores)
    # Its answers are the least that fits a schema: no claims at all.
    assert scores["faithfulness"].status is Status.NO_CLAIMS
    assert usage.calls > 0
    assert usage.prompt_tokens > 0


@pytest.fixture
def llama(tmp_path):
    with (tmp_path / "log").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, str(LLAMA_SCRIPT)],
            env={**os.environ, "PYTHONPATH": str(LLAMA.resolve())},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.stdout.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(not LLAMA.exists(), reason="llama.cpp is not installed; see tests/integration/test_llama_server.py")
async def test_a_real_server_holds_a_real_model_to_our_schemas(llama):
    one = named(["context_precision"])
    scores, usage = await judged(f"{llama}/v1", "smollm2", one, max_tokens=128, timeout_seconds=250)
    assert_each_has_a_value_or_a_reason(scores)
    # A model this small says nothing true, but the server's grammar leaves it no other form.
    assert scores["context_precision"].status is Status.OK
    assert usage.completion_tokens > 0
