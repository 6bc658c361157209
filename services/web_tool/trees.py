"""Trees of lxml, which has no types: bytes of HTML and XML to trees, within bounds."""

import re
from html.entities import html5
from typing import Any

import lxml.etree
import lxml.html

from services.web_tool.unreadable import Unreadable

# An element of lxml.
Element = Any
etree: Any = lxml.etree  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue, reportUnknownVariableType]
_html: Any = lxml.html

# What lxml may read, by references such as `&#12;`, and does not write; XML is broken by it.
CONTROLS = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_CDATA = "<![CDATA["
_REFERENCE = re.compile(r"&(?:([A-Za-z][A-Za-z0-9]{1,31});|#(?:([0-9]{1,9})|[xX]([0-9a-fA-F]{1,8}));)?")
_MAX_ELEMENTS = 150_000
_PROLOG_CHARS = 64 * 1024


def html_tree(text: str) -> Element:
    """The page as a tree, as forgiving as browsers. Raises Unreadable for one nested too deeply, or too large."""
    # As bytes: a declaration of another encoding within the text would be an error.
    parser = _html.HTMLParser(encoding="utf-8", no_network=True)
    content = CONTROLS.sub("", text).encode("utf-8", "replace")
    if not content.strip():
        content = b"<html></html>"
    try:
        tree = _html.document_fromstring(content, parser=parser)
    except etree.ParserError:
        tree = _html.document_fromstring(b"<html></html>")
    # The parser stops at 256 levels, and what comes after is lost.
    if any("depth" in error.message for error in parser.error_log.filter_from_fatals()):
        raise Unreadable("content", "The page is nested too deeply.")
    _check_size(tree)
    return tree


def xml_tree(text: str) -> Element | None:
    """The document as a tree, None where it is not XML. No entity is expanded, nothing is loaded.

    Raises Unreadable for entities of its own, which feeds and data have no need of, and for one too deep or too large.
    """
    prolog = text[:_PROLOG_CHARS].lower()
    if "<!entity" in prolog or ("<!doctype" in prolog and "[" in prolog.partition("<!doctype")[2].partition(">")[0]):
        raise Unreadable("content", "The page is XML with entities of its own.")
    parser = etree.XMLParser(
        encoding="utf-8", resolve_entities=False, no_network=True, load_dtd=False, recover=True, huge_tree=False
    )
    try:
        tree = etree.fromstring(_without_names(CONTROLS.sub("", text)).encode("utf-8", "replace"), parser)
    except etree.XMLSyntaxError:
        tree = None
    if any("depth" in error.message.lower() for error in parser.error_log.filter_from_fatals()):
        raise Unreadable("content", "The page is nested too deeply.")
    if tree is not None:
        _check_size(tree)
    return tree


def _without_names(xml: str) -> str:
    """Entities as numbers, and signs that begin none too.

    After any error libxml2 drops each `&lt;`: what feeds hide in their HTML would lose its tags, and show.
    """
    parts: list[str] = []
    start = 0
    while start < len(xml):
        begin = xml.find(_CDATA, start)
        end = xml.find("]]>", begin) if begin >= 0 else -1
        if end < 0:
            break
        parts += (_REFERENCE.sub(_as_number, xml[start:begin]), xml[begin:end])
        start = end
    return "".join((*parts, _REFERENCE.sub(_as_number, xml[start:])))


def _as_number(found: re.Match[str]) -> str:
    name, decimal, hexadecimal = found.groups()
    if name:
        text = html5.get(f"{name};")
        return "".join(f"&#{ord(character)};" for character in text) if text else f"&#38;{found[0][1:]}"
    if not (decimal or hexadecimal):
        return "&#38;"
    number = int(decimal) if decimal else int(hexadecimal, 16)
    is_character = (
        number in (9, 10, 13) or 32 <= number < 0xD800 or 0xE000 <= number < 0xFFFE or 0xFFFF < number < 0x110000
    )
    return f"&#{number};" if is_character else ""


def _check_size(tree: Element) -> None:
    if sum(1 for _ in tree.iter()) > _MAX_ELEMENTS:
        raise Unreadable("content", f"The page has more than {_MAX_ELEMENTS:,} elements.")
