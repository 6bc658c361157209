"""XML to text: feeds entry by entry, other documents line by line."""

from services.web_tool.hidden import remove_hidden
from services.web_tool.html_text import whole_text
from services.web_tool.trees import Element, html_tree, xml_tree

_ENTRIES = ("item", "entry")
_TITLE, _DATES = ("title",), ("pubDate", "published", "updated", "date")
_BODIES = ("encoded", "content", "description", "summary")


def read_xml(text: str, max_chars: int) -> tuple[str, str, bool]:
    """Title, text, and whether something hidden was taken out. Raises Unreadable.

    Entries are read until there are more than `max_chars`: a tree for each of a million would take too long.
    """
    tree = xml_tree(text)
    if tree is None:
        return "", text, False
    entries = [element for element in tree.iter() if _name(element) in _ENTRIES]
    if not entries:
        lines = (line.strip() for part in tree.itertext() for line in part.splitlines())
        return _first(tree, _TITLE), "\n".join(filter(None, lines)), False
    removed = False
    texts: list[str] = []
    left = max_chars
    for entry in entries:
        if left < 0:
            break
        body, hidden = _as_text(_first(entry, _BODIES))
        removed = removed or hidden
        parts = (_first(entry, _TITLE), _first(entry, _DATES), body)
        texts.append("\n".join(filter(None, parts)))
        left -= len(texts[-1]) + 1
    head = next((element for element in tree.iter() if _name(element) in ("channel", "feed")), tree)
    return _first(head, _TITLE), "\n\n".join(texts), removed


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _first(parent: Element, names: tuple[str, ...]) -> str:
    """Text of the first child of any of the names, in their order."""
    for name in names:
        for child in parent:
            if _name(child) == name and (text := "".join(child.itertext()).strip()):
                return text
    return ""


def _as_text(body: str) -> tuple[str, bool]:
    """Feeds carry HTML as text."""
    if "<" not in body:
        return body, False
    tree = html_tree(body)
    removed = remove_hidden(tree)
    return whole_text(tree), removed
