"""EPUB to blocks: the chapters in the order of the book's spine."""

import re
from typing import Any
from urllib.parse import unquote

from services.ingestion.parsed import Block, Outline, Parsed, Unreadable
from services.ingestion.parsers.archives import Archive, attribute, beside, name_of
from services.ingestion.parsers.parse_html import parse_html
from services.ingestion.parsers.text_encoding import clean, decode_html
from services.ingestion.parsers.titles import own_language, own_title

_PAGES = re.compile(r"\.x?html?$", re.I)


def parse_epub(content: bytes) -> Parsed:
    """Blocks of a book; title and language are those of its package. Raises Unreadable when damaged or locked."""
    archive = Archive(content, "epub")
    package = _package(archive)
    root = archive.xml(package)
    if root is None:
        raise Unreadable("The epub is damaged: its list of contents cannot be read.")
    locked = {unquote(attribute(one, "URI")) for one in _all(archive.xml("META-INF/encryption.xml"), "CipherReference")}
    pages = _spine(root, package)
    if pages and all(page in locked for page in pages):
        raise Unreadable("The epub is protected against copying; send one without protection.")
    labels = _labels(archive, root, package)
    outline = Outline()
    missing = 0
    for page in pages:
        if page not in archive.names or page in locked:
            missing += 1
            continue
        parsed = parse_html(decode_html(archive.read(page)))
        if not any(block.kind == "heading" for block in parsed.blocks) and parsed.blocks:
            outline.open(1, labels.get(page, "") or parsed.title or page.rpartition("/")[2])
        _append(outline, parsed.blocks)
    warnings = (f"{missing} chapters of the epub are missing or protected; they were not read.",) if missing else ()
    metadata = {name_of(one): clean("".join(one.itertext())).strip() for one in reversed(_all(root, "metadata", True))}
    title, language = own_title(metadata.get("title")), own_language(metadata.get("language"))
    return Parsed(title=title, language=language, blocks=tuple(outline.blocks), warnings=warnings)


def _append(outline: Outline, blocks: tuple[Block, ...]) -> None:
    for block in blocks:
        if block.kind == "heading":
            outline.heading(len(block.section), block.text)
        else:
            outline.add(block.text, block.kind)


def _package(archive: Archive) -> str:
    found = _all(archive.xml("META-INF/container.xml"), "rootfile")
    named = attribute(found[0], "full-path") if found else ""
    return named or next((name for name in sorted(archive.names) if name.endswith(".opf")), "")


def _all(root: Any, name: str, children: bool = False) -> list[Any]:
    """Elements of this name, or the children of the first of them."""
    found = [one for one in root.iter() if name_of(one) == name] if root is not None else []
    return [one for one in found[0] if name_of(one)] if children and found else [] if children else found


def _spine(root: Any, package: str) -> list[str]:
    """Paths of the chapters; without the table of contents, whose words are those of the headings."""
    items = {attribute(one, "id"): one for one in _all(root, "item")}
    spine = [items[key] for one in _all(root, "itemref") if (key := attribute(one, "idref")) in items]
    spine = spine or [one for one in items.values() if _PAGES.search(attribute(one, "href"))]
    pages = [one for one in spine if "nav" not in attribute(one, "properties").split()]
    return list(dict.fromkeys(beside(package, unquote(attribute(one, "href"))) for one in pages))


def _labels(archive: Archive, root: Any, package: str) -> dict[str, str]:
    """Names of the chapters by the old table of contents (NCX), for those that have no heading."""
    labels: dict[str, str] = {}
    for item in _all(root, "item"):
        if attribute(item, "media-type") != "application/x-dtbncx+xml":
            continue
        contents = beside(package, unquote(attribute(item, "href")))
        for point in _all(archive.xml(contents), "navPoint"):
            text = next(("".join(one.itertext()) for one in point if name_of(one) == "navLabel"), "")
            source = next((attribute(one, "src") for one in point if name_of(one) == "content"), "")
            labels.setdefault(beside(contents, unquote(source).partition("#")[0]), " ".join(clean(text).split()))
    return labels
