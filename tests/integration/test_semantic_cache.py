"""The semantic layer with a real Valkey, the real embedding service and model, and a verifier over HTTP."""

import contextlib
import json
import math
import statistics
import threading
import time
from collections import Counter
from contextlib import asynccontextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import redis

from services.embedding.config import Settings as EmbeddingSettings
from services.embedding.server import build as build_embedding
from services.runtime.channels import connect
from services.runtime.testing import SECRET, listening
from services.tool_cache.clients import EMBEDDING, EmbeddingClient
from services.tool_cache.semantic.layer import Question, SemanticLayer, TextVector
from services.tool_cache.semantic.valkey_index import ValkeyIndex
from services.tool_cache.semantic.verifier import ModelVerifier
from tests.unit.tool_cache.semantic import corpus

ASKED = "How many contracts did we sign in 2024?"
AGAIN = "How many contracts were signed in 2024?"
RECOMMENDED = 0.9
HOUR_MS = 3_600_000


@asynccontextmanager
async def embedding(model):
    served = build_embedding(EmbeddingSettings(identity_secret=SECRET, embedding_model=model))
    async with listening(served) as address:
        yield address


def noon(zone):
    """Always the same day: right after midnight nothing is remembered."""
    return datetime(2025, 11, 30, 12, tzinfo=zone)


@asynccontextmanager
async def layer(valkey_url, address, verifier=None, timeout_seconds=30):
    client = EmbeddingClient(connect(address, EMBEDDING), timeout_seconds=timeout_seconds)
    index = ValkeyIndex(valkey_url, timeout_seconds=5)
    made = SemanticLayer(index, client, verifier, timeout_seconds=timeout_seconds, now=noon)
    await made.open()
    yield made
    await made.close()


async def add(semantic, tenant, *texts):
    semantic.add_later([(Question(tenant, "s", text), HOUR_MS) for text in texts])
    await semantic.drain()


async def find(semantic, tenant, text, least=0.2):
    return (await semantic.find([(Question(tenant, "s", text), least)]))[0]


async def test_a_question_that_one_replica_remembers_is_found_by_another(valkey_url, tenant):
    async with embedding("hash:64") as address, layer(valkey_url, address) as one, layer(valkey_url, address) as other:
        await add(one, tenant, ASKED)
        [match] = await find(other, tenant, AGAIN)
        assert match.text == ASKED
        assert 0.2 < match.similarity < 1
        assert await find(other, tenant, AGAIN, least=0.999) == []
        assert await find(other, tenant, "How many contracts were signed in 2023?") == []


async def test_another_embedding_model_needs_nothing_to_be_forgotten(valkey_url, tenant):
    async with embedding("hash:64") as address, layer(valkey_url, address) as one:
        await add(one, tenant, ASKED)
        [before] = await find(one, tenant, AGAIN)
    async with embedding("hash:32") as address, layer(valkey_url, address) as other:
        [after] = await find(other, tenant, AGAIN)
    assert before.similarity != after.similarity


async def test_nothing_but_texts_is_kept(valkey_url, tenant):
    async with embedding("hash:64") as address, layer(valkey_url, address) as semantic:
        await add(semantic, tenant, ASKED)
    with redis.Redis.from_url(valkey_url) as client:
        [name] = client.keys(f"sabueso:cache:{{{tenant}}}:s:*")
        assert client.zrange(name, 0, -1) == [ASKED.encode()]


async def test_without_an_embedder_a_lookup_is_a_miss_in_bounded_time(valkey_url, tenant):
    async with layer(valkey_url, "127.0.0.1:1", timeout_seconds=0.5) as semantic:
        await add(semantic, tenant, ASKED)
        started = time.perf_counter()
        assert await find(semantic, tenant, AGAIN) == []
        assert time.perf_counter() - started < 20


async def test_without_valkey_a_lookup_is_a_miss_in_bounded_time(tenant):
    async with embedding("hash:64") as address, layer("redis://127.0.0.1:1", address) as semantic:
        started = time.perf_counter()
        await add(semantic, tenant, ASKED)
        assert await find(semantic, tenant, AGAIN) == []
        assert time.perf_counter() - started < 30


class Model(BaseHTTPRequestHandler):
    """A chat model that says what it was told; `asked` keeps the bodies."""

    says, status, asked, seconds = "yes", 200, [], 0.0

    def do_POST(self):
        type(self).asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        time.sleep(self.seconds)
        body = json.dumps({"choices": [{"message": {"role": "assistant", "content": self.says}}]}).encode()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(self.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_):
        pass


@asynccontextmanager
async def verifier(says="yes", status=200, seconds=0.0):
    handler = type("Told", (Model,), {"says": says, "status": status, "asked": [], "seconds": seconds})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    made = ModelVerifier(f"http://127.0.0.1:{server.server_port}/v1", "judge", api_key="k", timeout_seconds=0.5)
    try:
        yield made, handler
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ({"says": "yes"}, 1),
        ({"says": " Yes.\n"}, 1),
        ({"says": "no"}, 0),
        ({"says": "yes, but one asks for 2023"}, 0),
        ({"says": None}, 0),
        ({"says": ""}, 0),
        ({"status": 500}, 0),
        ({"status": 400}, 0),
        ({"seconds": 1.0}, 0),
    ],
)
async def test_a_second_check_that_does_not_say_yes_is_a_miss(valkey_url, tenant, answer, found):
    async with verifier(**answer) as (made, handler), embedding("hash:64") as address:
        async with layer(valkey_url, address, made) as semantic:
            await add(semantic, tenant, ASKED)
            assert len(await find(semantic, tenant, AGAIN)) == found
        body = handler.asked[0]
        assert body["model"] == "judge"
        assert json.loads(body["messages"][-1]["content"]) == [AGAIN, ASKED]


class AtOnce:
    """Vectors without a model, near each other: what is measured is all but the embedding."""

    async def embed(self, texts):
        near = [math.sin(0.1 * at) for at in range(384)]
        far = [math.cos(0.1 * at) for at in range(384)]
        return [TextVector(far if text.startswith("Why do cats") else near, truncated=False) for text in texts]

    async def close(self):
        pass


@pytest.mark.slow
async def test_a_lookup_among_ten_thousand_questions_is_quick(valkey_url, tenant):
    """The target is 6 ms at the median; the bound here only catches what is broken on a loaded machine."""
    semantic = SemanticLayer(ValkeyIndex(valkey_url, timeout_seconds=5), AtOnce(), timeout_seconds=30, now=noon)
    for start in range(0, 10_000, 500):
        texts = [f"How many contracts did we sign with supplier S-{n} in 2024?" for n in range(start, start + 500)]
        await add(semantic, tenant, *texts)
    took = []
    for n in range(0, 10_000, 100):
        asked = f"number of contracts signed with vendor S-{n} in 2024"
        started = time.perf_counter()
        assert [match.text for match in await find(semantic, tenant, asked)] == [
            f"How many contracts did we sign with supplier S-{n} in 2024?"
        ]
        took.append(time.perf_counter() - started)
    await semantic.close()
    print(f"median {statistics.median(took) * 1000:.2f} ms, p99 {sorted(took)[98] * 1000:.2f} ms")
    assert statistics.median(took) < 0.5


async def measured(valkey_url, tenant, pairs):
    """How many of the pairs (kind, language, one, other) hit, by kind and language, with the default model."""
    hits, tried = Counter(), Counter()
    async with embedding(EmbeddingSettings(identity_secret=SECRET).embedding_model) as address:
        async with layer(valkey_url, address, timeout_seconds=60) as semantic:
            for at, (_, _, one, _) in enumerate(pairs):
                semantic.add_later([(Question(tenant, f"{at}", one), HOUR_MS)])
                if at % 100 == 99:
                    await semantic.drain()
            await semantic.drain()
            for at, (kind, language, _, other) in enumerate(pairs):
                found = await semantic.find([(Question(tenant, f"{at}", other), RECOMMENDED)])
                hits[kind, language] += bool(found[0])
                tried[kind, language] += 1
    return hits, tried


def paraphrase_pairs(part):
    return [(part, lang, *pair) for lang in ("en", "es") for pair in corpus.paraphrases(part, lang)]


async def test_the_default_model_lets_paraphrases_through_and_nothing_else(valkey_url, tenant):
    pairs = corpus.adversarial()[::4] + paraphrase_pairs("dev")[::4]
    hits, _ = await measured(valkey_url, tenant, pairs)
    assert [kind for kind, count in hits.items() if count and kind[0] != "dev"] == []
    assert sum(count for kind, count in hits.items() if kind[0] == "dev") >= 0.5 * len(paraphrase_pairs("dev")[::4])


def family_pairs():
    """Neighbours of each family, in both the shortest and the longest distance: thousands of pairs of other meaning."""
    for name, items in corpus.families().items():
        kind, language = name.split(", ")
        for step in (1, len(items) // 2):
            for (meant, one), (other_meaning, other) in zip(items, items[step:], strict=False):
                if meant != other_meaning:
                    yield kind, language, one, other


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_all_adversarial_pairs_miss_with_the_default_model(valkey_url, tenant):
    pairs = [*corpus.adversarial(), *family_pairs()]
    assert len(pairs) >= 2_000
    hits, tried = await measured(valkey_url, tenant, pairs)
    print({" ".join(kind): f"{hits[kind]}/{count}" for kind, count in sorted(tried.items())})
    assert sum(hits.values()) == 0


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", ["dev", "test"])
async def test_half_of_the_paraphrases_hit_with_the_default_model(valkey_url, tenant, part):
    pairs = paraphrase_pairs(part)
    hits, tried = await measured(valkey_url, tenant, pairs)
    print({" ".join(kind): f"{hits[kind]}/{count}" for kind, count in sorted(tried.items())})
    assert sum(hits.values()) >= 0.55 * len(pairs)
