"""XML to blocks: RSS and Atom as articles, any other as elements with their paths. Entities are never expanded."""

from typing import Any

from services.ingestion.parsed import Outline, Parsed, Unreadable
from services.ingestion.parsers.archives import attribute, name_of, xml_root
from services.ingestion.parsers.parse_html import parse_html
from services.ingestion.parsers.parse_text import parse_text
from services.ingestion.parsers.text_encoding import clean, decode_html
from services.ingestion.parsers.titles import own_language, own_title
from services.ingestion.parsers.trees import Node, tree_blocks

_DEEPEST = 200
_ITEMS = {"item", "entry"}
_BODIES = ("encoded", "content", "description", "summary")
_INLINE = {"a", "b", "i", "em", "strong", "emphasis", "sub", "sup", "code", "link", "xref", "ph", "ulink", "literal"}


def parse_xml(content: bytes) -> Parsed:
    """Blocks of an XML document; one that is too broken to repair is read as a text."""
    if b"<!ENTITY" in content:
        raise Unreadable("The XML declares entities of its own, which are not expanded; send a copy without them.")
    root = xml_root(content)
    if root is None:
        return parse_text(decode_html(content))
    if name_of(root) in ("rss", "feed", "RDF") and any(name_of(one) in _ITEMS for one in root.iter()):
        return _feed(root)
    if name_of(root) == "html":
        return parse_html(decode_html(content))
    language = own_language(attribute(root, "lang"))
    return Parsed(own_title(_child(root, "title")), language, tuple(tree_blocks(_node(root, 0))))


def _feed(root: Any) -> Parsed:
    """Each article a section, with its date, author, address and text."""
    outline = Outline()
    channel = next((one for one in root if name_of(one) == "channel"), root)
    title, about = _child(channel, "title"), _child(channel, "description") or _child(channel, "subtitle")
    outline.add(about)
    for item in root.iter():
        if name_of(item) not in _ITEMS:
            continue
        outline.heading(1, _child(item, "title") or _child(item, "link"))
        lines = [
            f"{label}: {value}"
            for label, names in (
                ("Date", ("pubDate", "published", "updated", "date")),
                ("Author", ("creator", "author")),
            )
            if (value := next((text for name in names if (text := _child(item, name))), ""))
        ]
        outline.add("\n".join([*lines, *([f"Link: {link}"] if (link := _link(item)) else [])]))
        body = next((text for name in _BODIES if (text := _child(item, name))), "")
        for block in parse_html(body).blocks:
            if block.kind == "heading":
                outline.heading(1 + len(block.section), block.text)
            else:
                outline.add(block.text, block.kind)
    language = own_language(_child(channel, "language") or attribute(root, "lang"))
    return Parsed(title=title, language=language, blocks=tuple(outline.blocks))


def _child(element: Any, name: str) -> str:
    found = next((one for one in element if name_of(one) == name), None)
    return clean("".join(found.itertext())).strip() if found is not None else ""


def _link(item: Any) -> str:
    """RSS writes the address as text, Atom as an attribute."""
    found = next((one for one in item if name_of(one) == "link"), None)
    return ((found.text or "").strip() or attribute(found, "href")) if found is not None else ""


def _node(element: Any, depth: int) -> Node:
    if depth > _DEEPEST:
        raise Unreadable("The XML is nested too deeply.")
    children = [child for child in element if name_of(child)]
    # Prose with marks within it is one text.
    if children and all(name_of(child) in _INLINE for child in children) and _own_text(element):
        children = []
        text = " ".join("".join(element.itertext()).split())
    elif children:
        text = _own_text(element)
    else:
        text = (element.text or "").strip()
    parts: list[tuple[str, Node]] = [
        (f"@{key.rpartition('}')[2]}", clean(str(value))) for key, value in element.attrib.items() if value.strip()
    ]
    if text:
        parts.append(("", clean(text)))
    if not parts and len(children) == 0:
        return ""
    parts += [(name_of(child), _node(child, depth + 1)) for child in children]
    return parts[0][1] if len(parts) == 1 and parts[0][0] == "" else parts


def _own_text(element: Any) -> str:
    return " ".join(" ".join([element.text or "", *(child.tail or "" for child in element)]).split())
