"""An embedding service for a trial: the one at an address, or one that is started for it with the default model."""

import asyncio
import os
import secrets
import socket
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from services.orchestrator.clients import EmbeddingClient
from services.orchestrator.routing.encoder import Encoded
from services.runtime import context
from services.runtime.errors import ServiceError
from services.runtime.identity import Signer

_START_SECONDS, _STOP_SECONDS = 60.0, 10.0


class _ActingClient(EmbeddingClient):
    """Says anew with each call who asks: a trial takes longer than an identity is good for."""

    def __init__(self, address: str, signer: Signer) -> None:
        super().__init__(address)
        self._signer = signer

    async def encode(self, texts: Sequence[str], seconds: float) -> Encoded:
        """See QueryEncoder."""
        identity = context.Identity("demo")
        context.enter(context.CallContext(identity, self._signer.sign(identity)))
        return await super().encode(texts, seconds)


@asynccontextmanager
async def embedding() -> AsyncGenerator[EmbeddingClient]:
    """A client of a service of its own. Raises TimeoutError when that does not start."""
    secret, port = secrets.token_hex(32), _free_port()
    settings = {"HOST": "127.0.0.1", "PORT": str(port), "METRICS_PORT": "0", "IDENTITY_SECRET": secret}
    outside = {name: value for name, value in os.environ.items() if not name.startswith("SABUESO_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "services.embedding.server",
        env=outside | {f"SABUESO_{name}": value for name, value in settings.items()},
        stdout=asyncio.subprocess.DEVNULL,
    )
    client = _ActingClient(f"127.0.0.1:{port}", Signer(secret))
    try:
        async with asyncio.timeout(_START_SECONDS):
            await _until_it_answers(client)
        yield client
    finally:
        await client.channel.close()
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _STOP_SECONDS)
        except TimeoutError:
            process.kill()


async def _until_it_answers(client: EmbeddingClient) -> None:
    while True:
        try:
            await client.encode(["hello"], 5)
        except ServiceError:
            await asyncio.sleep(0.2)
        else:
            return


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
