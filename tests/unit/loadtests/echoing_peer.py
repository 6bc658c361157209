"""A peer for test_peers."""

import sys

from loadtests.peers.serving import serve


def fail(_):
    raise ValueError("no such thing")


def add_up(rounds):
    print("libraries print what they like")
    return sum(range(rounds))


if __name__ == "__main__":
    serve({"add_up": add_up, "fail": fail, "leave": lambda _: sys.exit(3)})
