"""What the worst of pages might make of the extraction; the page says which."""

import os
import time


def extract(content, *, kind, content_type, url, max_chars):
    """Does what the first word says; the rest is its argument."""
    deed, _, argument = content.decode().partition(" ")
    text = _DEEDS[deed](argument)
    yield {"title": "", "text": text, "charset": "utf-8", "truncated": False, "removed_invisible": False}


def _loop(argument):
    while True:
        pass


def _eat(argument):
    eaten = []
    while True:
        eaten.append(bytearray(2**24))


def _recurse(argument):
    return _recurse(argument)


def _write(argument):
    with open(argument, "w") as file:
        return str(file.write("x" * 100_000))


_DEEDS = {
    "say": lambda argument: argument,
    "loop": _loop,
    "sleep": lambda argument: time.sleep(60),
    "eat": _eat,
    "abort": lambda argument: os.abort(),
    "fail": lambda argument: {}[argument],
    "recurse": _recurse,
    "tell": lambda argument: " ".join(os.environ),
    "write": _write,
}
