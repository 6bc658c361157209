"""Mail as it travels (RFC 5322, MIME) to blocks."""

import email
import email.policy
from email.message import Message
from typing import Any, cast

from services.ingestion.parsed import Parsed, Unreadable
from services.ingestion.parsers.mail import Attachment, Mail, Read, to_blocks
from services.ingestion.parsers.text_encoding import decode_as

_HEADS = ("From", "To", "Cc", "Date")
_MOST_PARTS = 500


def parse_eml(content: bytes, read: Read) -> Parsed:
    """Blocks of a mail; `read` is for its attachments. Raises Unreadable when it has neither heads nor body."""
    try:
        message = email.message_from_bytes(content, policy=email.policy.default)
        subject, heads = _head(message, "Subject"), [(name, _head(message, name)) for name in _HEADS]
        found = _Found([], [], [])
        _collect(message, found, 0)
    except RecursionError:
        raise Unreadable("The mail is nested too deeply.") from None
    return to_blocks(Mail(subject, heads, "\n\n".join(found.plain), "\n".join(found.html), found.attachments), read)


class _Found:
    def __init__(self, plain: list[str], html: list[str], attachments: list[Attachment]) -> None:
        self.plain, self.html, self.attachments = plain, html, attachments
        self.parts = 0


def _head(message: Message, name: str) -> str:
    """A header, encoded words decoded; the raw text where it is malformed."""
    try:
        return str(message.get(name) or "")
    except Exception:  # the header parsers of the standard library raise many kinds on malformed headers
        raw = next((value for key, value in message.raw_items() if key.lower() == name.lower()), "")
        return str(raw)


def _collect(part: Any, found: _Found, depth: int) -> None:
    found.parts += 1
    if found.parts > _MOST_PARTS or depth > 20:
        return
    kind = part.get_content_type()
    name = _filename(part)
    attached = part.get_content_disposition() == "attachment"
    if kind == "message/rfc822":
        inner = part.get_payload()
        for message in cast(list[Message], inner) if isinstance(inner, list) else ():
            subject = _head(message, "Subject")
            found.attachments.append(Attachment(name or f"{subject or 'message'}.eml", _bytes_of(message)))
    elif part.is_multipart():
        for child in part.get_payload():
            _collect(child, found, depth + 1)
    elif kind in ("text/plain", "text/html") and not attached and not name:
        text = decode_as(_payload(part), part.get_content_charset() or "utf-8")
        (found.html if kind == "text/html" else found.plain).append(text)
    elif name or attached:
        inline = kind.startswith("image/") and (not attached or bool(part.get("Content-ID")))
        found.attachments.append(Attachment(name, _payload(part), inline))


def _filename(part: Any) -> str:
    try:
        return str(part.get_filename() or "")
    except Exception:  # as in _head
        return ""


def _payload(part: Any) -> bytes:
    try:
        payload = part.get_payload(decode=True)
    except Exception:  # as in _head
        return b""
    return payload if isinstance(payload, bytes) else b""


def _bytes_of(message: Any) -> bytes:
    try:
        return message.as_bytes()
    except Exception:  # as in _head; a message that cannot be written again
        return b""
