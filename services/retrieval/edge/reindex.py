"""Child process that builds the index of a copied shard: `python -m services.retrieval.edge.reindex <folder>`.

Building takes seconds per ten thousand chunks and the engine keeps the interpreter lock meanwhile, so that the
serving process must not do it. It also yields the processor to whoever serves.
"""

import asyncio
import os
import sys
from pathlib import Path

from services.retrieval.edge.shard import optimize


async def build_index(directory: Path) -> bool:
    """Runs the child on `directory`; True when it succeeded. A cancelled caller ends the child too."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.retrieval.edge.reindex", str(directory)
    )
    try:
        return await child.wait() == 0
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()


def main() -> None:
    """Optimises the shard in a folder."""
    os.nice(10)
    optimize(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
