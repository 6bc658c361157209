"""Which models `sabueso evals` asks: behind any OpenAI-compatible URL, or those that the gateway serves."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from services.cli.config import Settings
from services.cli.console import connect, fail

if TYPE_CHECKING:
    from services.evaluation.metrics.embedder import Embedder
    from services.evaluation.runs.gateway_asker import Stack


def model_of(url: str, key: str, name: str) -> tuple[str, str, str]:
    """Where to ask, with which key, and for which model. The gateway's own agent is none."""
    if url:
        if not name:
            fail("--model-url needs a --model.")
        return _usable(url), key or "none", name
    settings = Settings()
    if not name:
        with connect() as client:
            names = [one["id"] for one in client.call("GET", "/models")["data"] if one["id"] != "sabueso"]
        if not names:
            fail("The gateway offers no model to ask; name one with --model.")
        name = names[0]
    return _usable(f"{settings.url.rstrip('/')}/v1"), settings.api_key.get_secret_value(), name


def _usable(url: str) -> str:
    """The same. Ends the command where it is no address that can be asked."""
    import httpx2

    try:
        parts = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        fail(f"`{url}` is no URL: {error}.")
    if parts.scheme not in ("http", "https") or not parts.host or (parts.port or 0) > 65_535:
        fail(f"`{url}` is no URL that can be asked; one is https://models.example/v1.")
    return url


@asynccontextmanager
async def embedder_of(gateway: bool, url: str, model: str, key: str) -> "AsyncGenerator[Embedder | None]":
    """What embeds questions, without what all have in common: at `url`, which ends in `/v1`, or at the gateway.

    `gateway`: whether that may be asked. None where there is nothing, or it does not answer: nobody needs it.
    """
    from services.evaluation.metrics.centred import CentredEmbedder
    from services.evaluation.runs.embedder import GatewayEmbedder
    from services.evaluation.runs.gateway_asker import Stack

    stack = Stack((_usable(url) if url else "").rstrip("/").removesuffix("/v1"), key or "none")
    if not url and gateway:
        settings = Settings()
        stack = Stack(settings.url, settings.api_key.get_secret_value())
        model = await _embedding_model(stack)
    if not model:
        yield None
        return
    embedder = GatewayEmbedder(stack, model)
    try:
        yield CentredEmbedder(embedder)
    finally:
        await embedder.close()


async def _embedding_model(stack: "Stack") -> str:
    from services.evaluation.runs.gateway_asker import GatewayAsker, StackFailed

    asker = GatewayAsker(lambda _: stack)
    try:
        return next(iter(await asker.models(stack, "embedding")), "")
    except StackFailed:
        return ""
    finally:
        await asker.close()
