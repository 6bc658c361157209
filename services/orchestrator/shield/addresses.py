"""Finds what leads somewhere in a text: URLs, hosts and e-mail addresses, disguised ones too."""

import html
import re
import urllib.parse
from collections.abc import Iterator

from services.runtime.recognition.injections.concepts import plain

_SCHEME = re.compile(
    r"(?:https?|ftps?|wss?|file|ssh|smb|data|javascript|vbscript|blob|mailto|tel|sms)\s*:", re.IGNORECASE
)
_URL = re.compile(
    r"(?:https?|ftps?|wss?|file|ssh|smb)\s*:\s*[\\/]{1,3}[^\s\"'<>`|{}]{1,2000}|www\.[^\s\"'<>`|{}]{3,2000}",
    re.IGNORECASE,
)
# Top-level names that are no endings of files and no names of products; two letters are countries.
TOP = (
    "com|net|org|edu|gov|mil|int|info|biz|name|pro|xyz|top|site|online|shop|club|app|dev|cloud|live|store|tech|space|"
    "link|click|example|test|invalid|onion|local|internal|email|page|zip|mov|[a-z]{2}"
)
_HOST = re.compile(rf"(?<![\w@.-])(?:[a-z0-9_](?:[a-z0-9_-]{{0,62}})\.){{1,6}}(?:{TOP})(?![\w-]|\.\w)", re.IGNORECASE)
_MAIL = re.compile(r"[\w.%+'-]{1,64}@(?:[\w-]{1,63}\.){1,6}[a-z]{2,24}(?![\w-])", re.IGNORECASE)
_ADDRESS = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?::\d{1,5})?(?![\w.]\d)|0x[0-9a-f]{8}\b", re.IGNORECASE)
# `evil [dot] com`, `hxxp`, `evil . com`: what is written so that no program takes it for an address, and models do.
_DOT = re.compile(r"\s*[\[({]\s*(?:dot|punto|\.)\s*[\])}]\s*|\s+(?:dot|punto)\s+", re.IGNORECASE)
_AT = re.compile(r"\s*[\[({]\s*(?:at|arroba|@)\s*[\])}]\s*|\s+(?:arroba)\s+", re.IGNORECASE)
_HXXP = re.compile(r"\bhxxp(s?)", re.IGNORECASE)
_FILE_ENDINGS = re.compile(r"\.(?:py|js|ts|md|sh|rs|pl|cc|so|ps|rb|cs|hs|vb|tf|mk)$", re.IGNORECASE)
_END = ".,;:!?)]}'\"*_>"
_BETWEEN = re.compile(r"[\W_]+")


def is_file(name: str) -> bool:
    """Whether what looks like a host is more likely the name of a file or of a library."""
    return _FILE_ENDINGS.search(name) is not None


def undisguised(text: str) -> str:
    """`text` as whoever obeys it would write it: entities, percent-encoding and `[dot]` undone."""
    if "&" in text:
        text = html.unescape(text)
    if "%" in text:
        text = urllib.parse.unquote(text)
    return _HXXP.sub(r"http\1", _AT.sub("@", _DOT.sub(".", text)))


def addresses(text: str) -> Iterator[str]:
    """URLs, hosts, numeric addresses and e-mail addresses, in small letters, without what ends a sentence."""
    text = undisguised(text)
    if "." not in text and ":" not in text and "0x" not in text:
        return
    for pattern in (_URL, _MAIL, _HOST, _ADDRESS):
        for match in pattern.finditer(text):
            found = match[0].rstrip(_END).lower()
            if pattern is not _HOST or not is_file(found):
                yield found


def host_of(url: str) -> str:
    """The host of a URL, or of what is written like one; empty where there is none."""
    rest = re.sub(r"^[a-z]+\s*:\s*[\\/]*", "", url.strip().lower())
    return re.split(r"[\\/?#:]", rest.rpartition("@")[2] if "@" in rest else rest)[0]


def squeezed(text: str) -> str:
    """Letters and digits alone, in one form."""
    return _BETWEEN.sub("", plain(text))


def has_scheme(text: str) -> bool:
    """Whether a program would take it for an address with a scheme."""
    return _SCHEME.search(text) is not None
