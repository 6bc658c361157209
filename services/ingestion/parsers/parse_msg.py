"""Mail as Outlook keeps it (MS-OXMSG) to blocks."""

from email.header import decode_header, make_header
from io import BytesIO
from typing import Any

import oxmsg

from services.ingestion.parsed import Parsed, Unreadable
from services.ingestion.parsers.mail import Attachment, Mail, Read, to_blocks
from services.ingestion.parsers.text_encoding import clean, decode_html

# MS-OXPROPS: PidTagHtml, PidTagDisplayTo, PidTagDisplayCc.
_HTML, _DISPLAY_TO, _DISPLAY_CC = 0x1013, 0x0E04, 0x0E03


def parse_msg(content: bytes, read: Read) -> Parsed:
    """Blocks of a mail; `read` is for its attachments. Raises Unreadable when it is damaged."""
    try:
        message: Any = oxmsg.Message.load(BytesIO(content))
        mail = _mail(message)
    except MemoryError:
        raise
    except Exception:  # olefile and the library raise what struct and dictionaries raise
        raise Unreadable("The msg is damaged: its properties cannot be read.") from None
    return to_blocks(mail, read)


def _mail(message: Any) -> Mail:
    recipients = [_address(one) for one in message.recipients]
    heads = [
        ("From", _words(str(message.sender or ""))),
        ("To", ", ".join(filter(None, recipients)) or _text(message, _DISPLAY_TO)),
        ("Cc", _text(message, _DISPLAY_CC)),
        ("Date", message.sent_date.isoformat(" ", "seconds") if message.sent_date else ""),
    ]
    attachments = [Attachment(one.file_name or "", one.file_bytes or b"") for one in message.attachments]
    return Mail(str(message.subject or ""), heads, clean(message.body or ""), _html(message), attachments)


def _address(recipient: Any) -> str:
    name, address = recipient.name or "", recipient.email_address or ""
    return f"{name} <{address}>" if name and address and name != address else name or address


def _words(raw: str) -> str:
    """Headers that came over the internet may still be encoded (RFC 2047)."""
    return str(make_header(decode_header(raw)))


def _text(message: Any, number: int) -> str:
    value = message.properties.str_prop_value(number)
    return value if isinstance(value, str) else ""


def _html(message: Any) -> str:
    """Mostly bytes; the library would decode them strictly."""
    html = message.properties.binary_prop_value(_HTML)
    return decode_html(html) if html else _text(message, _HTML)
