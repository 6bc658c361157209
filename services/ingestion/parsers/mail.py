"""A mail of any format to blocks: its heads as text, its body, and what is attached."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from services.ingestion.parsed import Block, Parsed, Unreadable
from services.ingestion.parsers.parse_html import parse_html
from services.ingestion.parsers.parse_text import parse_text
from services.ingestion.parsers.text_encoding import clean

_MOST_ATTACHMENTS = 50
_LARGEST_ATTACHMENT_BYTES = 20 * 1024 * 1024
# A page of a newsletter has a plain body that says no more than "view in browser".
_LEAST_PLAIN_PART = 0.2

# Bytes and file name to blocks; raises Unreadable.
Read = Callable[[bytes, str], Parsed]


@dataclass(frozen=True)
class Attachment:
    """A file in a mail. `inline` are the pictures of its body."""

    filename: str
    content: bytes
    inline: bool = False


@dataclass(frozen=True)
class Mail:
    """`heads` are pairs such as ("From", "Ana <ana@example.org>"), decoded."""

    subject: str
    heads: Sequence[tuple[str, str]]
    plain: str
    html: str
    attachments: Sequence[Attachment]


def to_blocks(mail: Mail, read: Read) -> Parsed:
    """Blocks of a mail. Attachments that `read` refuses are named in the warnings, with its reason."""
    warnings: list[str] = []
    subject = " ".join(clean(mail.subject).split())
    above = (subject,) if subject else ()
    names = [one.filename for one in mail.attachments if one.filename and not one.inline]
    heads = [*mail.heads, *([("Attachments", ", ".join(names))] if names else [])]
    lines = [f"{name}: {' '.join(clean(value).split())}" for name, value in heads if value.strip()]
    blocks = [Block(subject, "heading", above)] if subject else []
    blocks += [Block("\n".join(lines), "paragraph", above)] if lines else []
    blocks += _below(_body(mail), above)
    for number, one in enumerate(one for one in mail.attachments if not one.inline):
        name = clean(one.filename) or "without a name"
        if number >= _MOST_ATTACHMENTS or len(one.content) > _LARGEST_ATTACHMENT_BYTES:
            warnings.append(f"The attachment {name} was not read: it is too large, or one of too many.")
            continue
        try:
            parsed = read(one.content, one.filename)
        except Unreadable as error:
            warnings.append(f"The attachment {name} was not read: {error}")
            continue
        warnings += parsed.warnings
        blocks += _below(parsed, (*above, f"Attachment {name}"))
    return Parsed(title=subject, blocks=tuple(blocks), warnings=tuple(warnings))


def _below(parsed: Parsed, above: tuple[str, ...]) -> list[Block]:
    """The blocks of another document, in sections below `above`. Its pages are not those of the mail."""
    return [replace(block, section=(*above, *block.section), page=0) for block in parsed.blocks]


def _body(mail: Mail) -> Parsed:
    plain = clean(mail.plain).strip()
    if not mail.html.strip():
        return parse_text(plain)
    page = parse_html(mail.html)
    length = sum(len(block.text) for block in page.blocks)
    return parse_text(plain) if plain and len(plain) >= _LEAST_PLAIN_PART * length else page
