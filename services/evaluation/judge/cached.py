"""Remembers what a judge has answered: the claims of a text are taken out once, whoever asks for them."""

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol
from weakref import WeakValueDictionary

from services.evaluation.answered import Json
from services.evaluation.judge.judge import Check, Judge, Usage, no_complaint
from services.evaluation.judge.prompts import REPEAT
from services.evaluation.retrieval.vector_cache import VectorCache

_KEPT_ANSWERS = 10_000


class AnswerCache(Protocol):
    """Texts by key."""

    async def get(self, key: str) -> str | None:
        """What was put under `key`, or None."""
        ...

    async def put(self, key: str, text: str) -> None:
        """Keeps it; the text of a key never changes."""
        ...


class MemoryCache:
    """In this process; what was not asked for longest goes first."""

    def __init__(self, most: int = _KEPT_ANSWERS) -> None:
        self._most = most
        self._texts: OrderedDict[str, str] = OrderedDict()

    async def get(self, key: str) -> str | None:
        """See AnswerCache."""
        if key in self._texts:
            self._texts.move_to_end(key)
        return self._texts.get(key)

    async def put(self, key: str, text: str) -> None:
        """See AnswerCache."""
        self._texts[key] = text
        self._texts.move_to_end(key)
        while len(self._texts) > self._most:
            self._texts.popitem(last=False)


class DiskCache:
    """In a folder of its own, so that the next run asks for nothing that this one did."""

    def __init__(self, folder: Path) -> None:
        self._file = VectorCache(folder, "answers of judges")

    async def get(self, key: str) -> str | None:
        """See AnswerCache."""
        found = self._file.get(key.encode())
        return None if found is None else found.decode()

    async def put(self, key: str, text: str) -> None:
        """See AnswerCache."""
        self._file.put([(key.encode(), text.encode())])

    def close(self) -> None:
        """Lets go of the file."""
        self._file.close()


class CachedJudge:
    """A judge that is asked the same only once, also when it is asked at the same time.

    Answers of another server or model, another prompt (also that of asking once more), other facts or another schema
    are others. Failures are not kept.
    """

    def __init__(self, judge: Judge, cache: AnswerCache, tasks: Collection[str] | None = None) -> None:
        """`tasks`: those whose answers are kept; None: all. Verdicts asked anew show whether a judge is steady."""
        self._judge = judge
        self._cache = cache
        self._tasks = tasks
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.found_count = 0

    @property
    def name(self) -> str:
        """See Judge."""
        return self._judge.name

    @property
    def url(self) -> str:
        """See Judge."""
        return self._judge.url

    @property
    def usage(self) -> Usage:
        """See Judge; what the cache answered is not in it."""
        return self._judge.usage

    def prompt_version(self, task: str, language: str) -> str:
        """See Judge."""
        return self._judge.prompt_version(task, language)

    async def ask(
        self,
        task: str,
        language: str,
        facts: Mapping[str, Json],
        schema: Mapping[str, Json],
        check: Check = no_complaint,
    ) -> Json:
        """See Judge."""
        if self._tasks is not None and task not in self._tasks:
            return await self._judge.ask(task, language, facts, schema, check)
        key = self._key(task, language, facts, schema)
        async with self._asking.setdefault(key, asyncio.Lock()):
            if (text := await self._cache.get(key)) is not None:
                self.found_count += 1
                return json.loads(text)
            answer = await self._judge.ask(task, language, facts, schema, check)
            await self._cache.put(key, json.dumps(answer))
            return answer

    def _key(self, task: str, language: str, facts: Mapping[str, Json], schema: Mapping[str, Json]) -> str:
        versions = [self.prompt_version(one, language) for one in (task, REPEAT)]
        parts = [self.url, self.name, task, versions, facts, schema]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
