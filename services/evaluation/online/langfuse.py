"""Scores for the traces of the answers, in Langfuse (`POST /api/public/scores`; its OpenAPI: CreateScoreRequest)."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import httpx2
from tenacity import AsyncRetrying, retry_if_result, stop_after_attempt, wait_random_exponential

from services.evaluation.online.gauges import LANGFUSE
from services.evaluation.online.offered import Offered
from services.evaluation.score import Score

log = logging.getLogger(__name__)

_TRIES, _MOST_AT_ONCE = 3, 4
# Of its own, or of a proxy before it; a wait may help.
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})


class LangfuseScores:
    """Sends scores. The same score sent twice is one: its id is made of answer and metric."""

    def __init__(
        self, url: str, public_key: str, secret_key: str, *, timeout_seconds: float = 10, wait_seconds: float = 0.5
    ) -> None:
        """`url`: of the server, without `/api`. `wait_seconds`: before the second try, twice that before the third."""
        self._wait_seconds = wait_seconds
        self._at_once = asyncio.Semaphore(_MOST_AT_ONCE)
        self._http = httpx2.AsyncClient(
            base_url=url.rstrip("/"),
            auth=(public_key, secret_key),
            timeout=timeout_seconds,
            transport=httpx2.AsyncHTTPTransport(
                retries=_TRIES - 1, limits=httpx2.Limits(max_connections=_MOST_AT_ONCE)
            ),
        )

    async def send(self, offered: Offered, scores: Sequence[Score], judge: str) -> None:
        """Attaches those that have a value to the answer's trace, if it has one. Never raises: losses are counted."""
        bodies = [body_of(offered, one, judge) for one in scores if one.value is not None]
        if offered.answered.trace_id:
            await asyncio.gather(*map(self._send, bodies))

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def _send(self, body: dict[str, Any]) -> None:
        retrying = AsyncRetrying(
            stop=stop_after_attempt(_TRIES),
            wait=wait_random_exponential(self._wait_seconds),
            retry=retry_if_result(lambda status: status in _TRANSIENT),
            retry_error_callback=lambda state: state.outcome.result() if state.outcome else 0,
        )
        try:
            async with self._at_once:
                status: int = await retrying(self._post, body)
        except httpx2.HTTPError as error:
            LANGFUSE.labels("lost").inc()
            log.warning("Langfuse cannot be reached", extra={"reason": type(error).__name__})
            return
        LANGFUSE.labels("sent" if status < 300 else "lost").inc()
        if status >= 300:
            log.warning("Langfuse does not take a score", extra={"status": status})

    async def _post(self, body: dict[str, Any]) -> int:
        return (await self._http.post("/api/public/scores", json=body)).status_code


def body_of(offered: Offered, score: Score, judge: str) -> dict[str, Any]:
    """A CreateScoreRequest. No words: what the judge saw stays here."""
    answered = offered.answered
    return {
        "id": f"{answered.answer_id}-{score.metric}",
        "traceId": answered.trace_id,
        "name": score.metric,
        "value": score.value,
        "dataType": "NUMERIC",
        "metadata": {"judge": judge, "answer_id": answered.answer_id, "claim_count": score.claim_count},
    }
