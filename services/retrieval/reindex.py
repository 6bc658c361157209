"""Child process that builds the index of a copied shard: `python -m services.retrieval.reindex <folder> <dimensions>`.

Building takes seconds per ten thousand chunks and the engine keeps the interpreter lock meanwhile, so that the
serving process must not do it. It also yields the processor to whoever serves.
"""

import asyncio
import os
import sys
from pathlib import Path

from services.retrieval.edge_shard import EdgeShard


async def build_index(directory: Path, dimensions: int) -> bool:
    """Runs the child on `directory`; True when it succeeded. A cancelled caller ends the child too."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.retrieval.reindex", str(directory), str(dimensions)
    )
    try:
        return await child.wait() == 0
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()


def main() -> None:
    """Opens, optimises and closes the shard."""
    os.nice(10)
    shard = EdgeShard(Path(sys.argv[1]), int(sys.argv[2]))
    shard.optimize()
    shard.close()


if __name__ == "__main__":
    main()
