"""`python -m loadtests FILE …`: the load test of that name, as the image for clusters starts it."""

import runpy
import sys
from collections.abc import Sequence

FILES = ("smoke", "slo", "spike", "soak", "ingest")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the file with the arguments that follow its name. Raises SystemExit with its status; 2 for no such file."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] not in FILES:
        sys.stderr.write(f"say which load test: {', '.join(FILES)}\n")
        return 2
    sys.argv = words
    runpy.run_module(f"loadtests.{words[0]}", run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
