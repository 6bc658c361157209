"""What the tests of the sandbox run in it."""

import os
import sys

from services.runtime.sandbox_protocol import Refused


def count(content, *, separator, deep=None):
    """The size of the content, and its parts."""
    if not separator:
        raise Refused("no separator; año")
    if content == b"raise":
        raise KeyError("secret")
    if content == b"exit":
        os._exit(7)
    yield {"size": len(content), "deep": deep}
    if content == b"stdin":
        yield sys.stdin.read()
    else:
        yield from content.decode("utf-8", "replace").split(separator)
