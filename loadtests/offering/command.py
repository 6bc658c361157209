"""`python -m loadtests.<file>`: Locust with the file, against a stack of its own unless one was named."""

import argparse
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext

from locust import main as locust_main

from loadtests.measuring import NotMeasured
from loadtests.offering.options import add_options, asked_of, plan_of
from loadtests.offering.plan import BadPlan

_QUIET = ("--only-summary", "--loglevel", "WARNING")


def main(file: str, *, own_stack: bool, arguments: Sequence[str] | None = None) -> int:
    """Exit status: Locust's, which is 1 when the load did not keep its budgets and 130 when interrupted.

    `own_stack`: starts one with the model's latency of the plan, unless SABUESO_URL names a stack to measure. Arguments
    are Locust's and those of options.py; a worker (--worker) starts nothing either.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if {"-h", "--help"} & {*words}:
        # Locust's own help knows no options of a file.
        _parser().print_help()
        return 0
    starts = own_stack and not os.environ.get("SABUESO_URL") and "--worker" not in words
    try:
        with _stack(words) if starts else nullcontext():
            sys.argv = ["locust", "-f", file, "--headless", *_QUIET, *words]
            locust_main.main()
    except NotMeasured as error:
        print(f"not measured: {error}")
        return 1
    except BadPlan as error:
        print(error)
        return 2
    except KeyboardInterrupt:
        return 130
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 0


@contextmanager
def _stack(words: Sequence[str]) -> Generator[None]:
    # An image for clusters holds nothing that starts a stack.
    from loadtests.own_stack import OwnStack

    profile = plan_of(asked_of(_parser().parse_known_args(words)[0])).profile
    print("starting a stack of its own", flush=True)
    with OwnStack() as stack:
        stack.up(profile)
        os.environ["SABUESO_HOME"] = str(stack.home)
        yield


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Offers a load and judges it.",
        epilog="Besides these, those of Locust: locust --help",
        allow_abbrev=False,
    )
    add_options(parser)
    return parser
