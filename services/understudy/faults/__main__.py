"""`python -m services.understudy.faults --port 0`: prints its address, and serves until SIGTERM or SIGINT."""

import argparse
import asyncio
import signal

from services.understudy.faults.script import Script
from services.understudy.faults.server import faulty


async def serve(port: int, script: Script) -> None:
    """Serves until a signal."""
    stop = asyncio.Event()
    for sig in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sig, stop.set)
    async with faulty(script, port) as server:
        print(server.url, flush=True)
        await stop.wait()


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 is any free one")
    parser.add_argument("--script", type=Script.model_validate_json, default=Script(), help="JSON of the default")
    arguments = parser.parse_args()
    asyncio.run(serve(arguments.port, arguments.script))


if __name__ == "__main__":
    main()
