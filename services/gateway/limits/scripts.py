"""Runs scripts in Valkey or Redis."""

import hashlib
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from redis.exceptions import NoScriptError, RedisError, ResponseError

from services.gateway.limits.channel import Part, Store
from services.gateway.limits.decision import StoreLost
from services.gateway.limits.metrics import STORE_SECONDS

log = logging.getLogger(__name__)

_REFUSALS = ("unknown command", "not supported", "no permissions", "noperm")


class Script:
    """A script of this folder."""

    def __init__(self, name: str) -> None:
        self.text = (Path(__file__).parent / f"{name}.lua").read_text(encoding="utf-8")
        self.sha = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()
        self.seconds = STORE_SECONDS.labels(name)


class Scripts:
    """The scripts of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._takes_digests = True

    async def run(
        self, script: Script, keys: Sequence[str], arguments: Sequence[Part], *, at_once: bool = False
    ) -> list[Any]:
        """A script's answer. `at_once`: it is sent before anything else is done. Raises StoreLost."""
        since = time.perf_counter()
        try:
            return cast(list[Any], await self._evaluate(script, keys, arguments, at_once))
        except TimeoutError as error:
            self._store.drop()
            raise StoreLost("timeout") from error
        except (RedisError, OSError) as error:
            raise StoreLost(type(error).__name__) from error
        finally:
            script.seconds.observe(time.perf_counter() - since)

    def drop(self) -> None:
        """The next script goes over another connection."""
        self._store.drop()

    async def _evaluate(self, script: Script, keys: Sequence[str], arguments: Sequence[Part], at_once: bool) -> Any:
        if self._takes_digests:
            try:
                return await self._store.call("EVALSHA", script.sha, len(keys), *keys, *arguments, at_once=at_once)
            except NoScriptError:
                pass  # the store was restarted, or told to forget
            except ResponseError as error:
                if not any(sign in str(error).lower() for sign in _REFUSALS):
                    raise
                # Not the script failed: the command is refused, by a proxy or by rights.
                if self._takes_digests:
                    log.warning("the store takes no EVALSHA; scripts are sent whole", extra={"reason": str(error)[:99]})
                self._takes_digests = False
        return await self._store.call("EVAL", script.text, len(keys), *keys, *arguments)
