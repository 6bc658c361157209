"""`python -m loadtests.report FOLDER [FOLDER2]`: of a run, or what changed from a first to a second one.

`--plot FILE` instead draws what the processes held during a soak, as SVG.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from loadtests.report import pages
from loadtests.report.comparison import compare
from loadtests.report.records import BadFolder, read


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 when the report was written, whatever it says; 2 when a folder holds no run."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.report", description=__doc__)
    parser.add_argument("folder", type=Path, help="with run.json and samples.jsonl")
    parser.add_argument("folder2", type=Path, nargs="?", help="another one: what is different there")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="for the picture of a soak: memory, descriptors, leases"
    )
    asked = parser.parse_args(arguments)
    if asked.plot and asked.folder2:
        parser.error("--plot is of one run")
    try:
        if asked.plot:
            said = _plot(asked.folder, asked.plot)
        else:
            said = _report(asked.folder) if asked.folder2 is None else _comparison(asked.folder, asked.folder2)
    except BadFolder as error:
        parser.exit(2, f"{error}\n")
    except OSError as error:
        parser.exit(2, f"the report cannot be written: {error}\n")
    print(said)
    return 0


def _report(folder: Path) -> str:
    pages.write(folder)
    return f"{pages.markdown(read(folder))}\n{folder / pages.HTML}"


def _plot(folder: Path, path: Path) -> str:
    pages.write_soak_plot(read(folder), path)
    return str(path)


def _comparison(first: Path, second: Path) -> str:
    compared = compare(read(first), read(second))
    pages.write_comparison(compared, second)
    return f"{pages.comparison_markdown(compared)}\n{second / pages.COMPARISON_HTML}"


if __name__ == "__main__":
    raise SystemExit(main())
