"""The requests that are offered, each with what a true answer says."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from loadtests.answers import Question, StreamedAnswer, questions
from tests.chaos.offering import Kind, Offering, Sample

DEADLINE_SECONDS = 10.0
MODEL = "meta-llama/Llama-3.1-70B-Instruct"
COLLECTION = "chaos"
# Both tenants have a document of this name, and ask the same of it: each must only ever read its own word.
WORDS: Mapping[str, str] = {"demo": "AMBERLYNX-4711", "other": "COBALTOWL-9023"}
CANARY = "archive-rules"
QUESTION = "What is the access word of the archive in Zamora?"


def canary(tenant: str) -> str:
    """Text of the document that tells a tenant's word."""
    return f"# Rules of the archive\n\nThe access word of the archive in Zamora is {WORDS[tenant]}.\n"


def _agent(question: str, *, stream: bool, strategy: str, cache: str) -> dict[str, Any]:
    extras = {"cache": cache, "strategy": strategy, "deadline_ms": int(1000 * DEADLINE_SECONDS)}
    return {
        "model": "sabueso",
        "stream": stream,
        "messages": [{"role": "user", "content": question}],
        "sabueso": extras,
    } | ({"stream_options": {"include_usage": True}} if stream else {})


def _note_answer(sample: Sample, text: str, extras: Mapping[str, Any], usage: Mapping[str, Any]) -> None:
    sample.text = text
    sample.finish = extras.get("finish", "")
    sample.degraded = tuple(one["service"] for one in extras.get("degraded") or ())
    sample.reasons = tuple(one["reason"] for one in extras.get("degraded") or ())
    sample.tokens = usage.get("total_tokens", 0)


def answered(
    question: Question, strategy: str, *, stream: bool, cache: str = "off"
) -> Callable[[Offering, Sample], Any]:
    """Asks the agent, and checks what it says."""

    async def whole(offering: Offering, sample: Sample) -> None:
        body = _agent(question.text, stream=False, strategy=strategy, cache=cache)
        said = await offering.call(sample, "/v1/chat/completions", body)
        if said:
            text = said["choices"][0]["message"]["content"] or ""
            _note_answer(sample, text, said["sabueso"], said.get("usage") or {})

    async def streamed(offering: Offering, sample: Sample) -> None:
        body = _agent(question.text, stream=True, strategy=strategy, cache=cache)
        answer, usage = StreamedAnswer(sample.sent), {}
        call = offering.http.stream("POST", "/v1/chat/completions", json=body, headers=offering.headers(sample.tenant))
        async with call as response:
            sample.status = response.status_code
            if response.status_code >= 400:
                sample.note_error(json.loads(await response.aread()))
                return
            async for line in response.aiter_lines():
                answer.feed(line, time.monotonic())
                event = _event(line)
                usage = event.get("usage") or usage
                if "error" in event:
                    sample.note_error(event)
        _note_answer(sample, answer.text, answer.summary, usage)
        if not sample.problem and not answer.done:
            sample.problem = "the stream ended before the answer did"

    async def ask(offering: Offering, sample: Sample) -> None:
        await (streamed if stream else whole)(offering, sample)
        if not sample.problem and (missing := _missing(question, sample)):
            sample.untrue = f"it does not say {', '.join(missing)}"

    return ask


def _missing(question: Question, sample: Sample) -> list[str]:
    if question.text == QUESTION:
        return [] if WORDS[sample.tenant] in sample.text else [WORDS[sample.tenant]]
    return question.missing(sample.text)


def _event(line: str) -> dict[str, Any]:
    return json.loads(line.removeprefix("data:")) if line.startswith("data: {") else {}


async def passed_through(offering: Offering, sample: Sample) -> None:
    """Straight to the model, streamed not."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 16}
    said = await offering.call(sample, "/v1/chat/completions", body)
    if said:
        sample.tokens = said["usage"]["total_tokens"]
        if not said["choices"][0]["message"]["content"]:
            sample.untrue = "it says nothing"


async def searched(offering: Offering, sample: Sample) -> None:
    """The tenant's own word is in the first passage."""
    said = await offering.call(sample, "/v1/search", {"query": QUESTION, "collections": [COLLECTION], "top_k": 3})
    if said:
        sample.degraded = tuple(said["degraded"])
        sample.reasons = sample.degraded
        if WORDS[sample.tenant] not in json.dumps(said["results"]):
            sample.untrue = "it does not find the word"


async def embedded(offering: Offering, sample: Sample) -> None:
    """One vector."""
    said = await offering.call(sample, "/v1/embeddings", {"model": "multilingual-e5-small", "input": "a late delivery"})
    if said:
        sample.tokens = said["usage"]["total_tokens"]
        if len(said["data"][0]["embedding"]) < 100:
            sample.untrue = "it is no vector"


async def reranked(offering: Offering, sample: Sample) -> None:
    """The right one of two texts is first."""
    texts = ["The weather is fine", "Late delivery costs 2 % a month"]
    said = await offering.call(sample, "/v1/rerank", {"query": "late delivery", "documents": texts})
    if said:
        sample.tokens = (said.get("usage") or {}).get("total_tokens", 0)
        if said["results"][0]["index"] != 1:
            sample.untrue = "the wrong text is first"


async def uploaded(offering: Offering, sample: Sample) -> None:
    """A document with a word that no other has. What is acknowledged goes into the ledger."""
    number = next(offering.numbers)
    document_id, word = f"note-{number}", f"ZQ{number}XJ"
    text = f"# Note {number}\n\nThe cupboard {word} holds the spare keys of the {sample.tenant} building.\n"
    body = {"collection": COLLECTION, "document_id": document_id, "title": f"Note {number}", "text": text}
    said = await offering.call(sample, "/v1/documents", body)
    if said:
        offering.ledger.documents[document_id] = sample.tenant, word


_BOTH = tuple(WORDS)
_AGENT = frozenset({"gateway", "orchestrator", "understudy"})
_DOCUMENTS = _AGENT | {"retrieval"}


def kinds() -> list[Kind]:
    """What is offered: about five requests a second."""
    [providers] = questions("providers-in-spain")
    [copper] = questions("copper")
    archive = Question("archive", QUESTION, ())
    return [
        Kind("documents", _BOTH, 0.8, _DOCUMENTS, answered(archive, "rag", stream=False)),
        Kind("documents, streamed", _BOTH, 0.8, _DOCUMENTS, answered(archive, "rag", stream=True)),
        Kind("sql", ["demo"], 0.4, _AGENT | {"sql_tool", "postgres"}, answered(providers, "react", stream=True)),
        Kind(
            "sql, remembered",
            ["demo"],
            0.4,
            _AGENT | {"tool_cache"},
            answered(providers, "react", stream=False, cache="use"),
        ),
        Kind("web", ["demo"], 0.4, _AGENT | {"web_tool"}, answered(copper, "react", stream=True)),
        Kind("model", _BOTH, 0.6, frozenset({"gateway", "understudy"}), passed_through),
        Kind("search", _BOTH, 0.6, frozenset({"gateway", "retrieval"}), searched),
        Kind("embedding", ["demo"], 0.3, frozenset({"gateway", "embedding"}), embedded),
        Kind("reranking", ["demo"], 0.3, frozenset({"gateway", "reranking", "embedding"}), reranked),
        Kind("upload", _BOTH, 0.5, frozenset({"gateway", "ingestion", "valkey"}), uploaded),
    ]
