"""HTML to blocks: what a reader sees, without menus, scripts and hidden parts."""

import re
from collections.abc import Iterator
from itertools import islice

from bs4 import BeautifulSoup
from bs4.element import NavigableString, PageElement, PreformattedString, Tag

from services.ingestion.parsed import MOST_HIDDEN, Outline, Parsed, Unreadable, hidden, table
from services.ingestion.parsers.clauses import add_paragraph

_DROPPED = {
    "script", "style", "noscript", "template", "nav", "aside", "iframe", "object", "svg", "canvas", "form", "button",
    "select", "dialog", "head",
}  # fmt: skip
_BLOCKS = {
    "address", "article", "blockquote", "body", "caption", "center", "dd", "details", "div", "dl", "dt", "fieldset",
    "figcaption",
    "figure", "footer", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "html", "li", "main", "ol", "p", "pre",
    "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul",
}  # fmt: skip
_HEADINGS = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6}
_HIDING_ROLES = {"navigation", "search", "menu", "menubar", "dialog", "banner", "contentinfo"}
# A page of a person nests a few dozen levels; a bomb nests a million and would exhaust the stack.
_DEEPEST = 400
_INVISIBLE = re.compile(
    r"display:none|visibility:hidden|opacity:0(?:\.0+)?(?![\d.])|font-size:0(?:\.[0-4]\d*)?(?:px|pt|em|rem|%)?(?![\d.])"
)
_WHITE = re.compile(r"(?<![\w-])color:(?:white|#fff(?:fff)?\b|rgba?\(255,255,255)")
_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*>")
# A page that says which part is its matter is read from there, unless that part is but a small one.
_LEAST_MAIN_PART = 0.3


def parse_html(text: str) -> Parsed:
    """Blocks of a page. Title and language are those that the page declares."""
    try:
        text = _DECLARATION.sub("", text)
        soup = BeautifulSoup(text if "<" in text else f"<p>{text}</p>", "lxml")
    except (RecursionError, AssertionError):
        raise Unreadable("The HTML is nested too deeply.") from None
    title = " ".join(soup.title.get_text().split()) if soup.title else ""
    declared = soup.html.get("lang") if soup.html else None
    language = declared[:2].lower() if isinstance(declared, str) else ""
    outline = Outline()
    _Walk(outline).block(_main(soup.body or soup), 0)
    unseen = hidden((one.get_text(" "), 0) for one in islice(soup.find_all(_unseen), MOST_HIDDEN))
    if not title:
        title = next((block.text for block in outline.blocks if block.kind == "heading"), "")
    return Parsed(title=title, language=language, blocks=tuple(outline.blocks), hidden=unseen)


def _main(body: Tag | BeautifulSoup) -> Tag | BeautifulSoup:
    found = body.find_all(["main", "article"], limit=50) or body.find_all(role="main", limit=2)
    found = [one for one in found if one.name == "main"] or found
    if len(found) != 1 or _letters(found[0].get_text()) < _LEAST_MAIN_PART * _letters(body.get_text()):
        return body
    return found[0]


class _Walk:
    """Goes through the tree in reading order and collects runs of inline text between block elements."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline

    def block(self, element: Tag | BeautifulSoup, depth: int, bullet: str = "") -> None:
        if depth > _DEEPEST:
            raise Unreadable("The HTML is nested too deeply.")
        run: list[str] = []
        number = 0
        for child in element.children:
            if not isinstance(child, Tag):
                run.append(_text_of(child))
            elif _hidden(child):
                continue
            elif child.name not in _BLOCKS and not _holds_blocks(child):
                run.append(_inline(child))
            else:
                self._flush(run, bullet)
                bullet = "" if run else bullet
                run = []
                if child.name == "li":
                    number += 1
                    mark = f"{number}. " if element.name == "ol" else "- "
                    self.block(child, depth + 1, mark)
                else:
                    self._special(child, depth, bullet)
                    bullet = ""
        self._flush(run, bullet)

    def _special(self, element: Tag, depth: int, bullet: str) -> None:
        if element.name in _HEADINGS:
            self._outline.heading(_HEADINGS[element.name], " ".join(_inline(element).split()))
        elif element.name == "pre":
            self._outline.add(element.get_text(), "code")
        elif element.name == "table" and (grid := _grid(element)):
            self._outline.add(grid, "table")
        else:
            self.block(element, depth + 1, bullet)

    def _flush(self, run: list[str], bullet: str) -> None:
        lines = (" ".join(line.split()) for line in "".join(run).split("\v"))
        words = "\n".join(line for line in lines if line)
        if words and bullet:
            self._outline.add(bullet + words, "list")
        elif words:
            add_paragraph(self._outline, words)


def _text_of(node: PageElement) -> str:
    if isinstance(node, NavigableString) and not isinstance(node, PreformattedString):
        return str(node)
    return ""


def _inline(element: Tag) -> str:
    """Text of an inline element, with a vertical tab for each line break."""
    if element.name == "br":
        return "\v"
    if element.name == "img":
        return f" {element.get('alt') or ''} "
    return "".join(_pieces(element))


def _pieces(element: Tag) -> Iterator[str]:
    for child in element.children:
        if isinstance(child, Tag):
            if not _hidden(child):
                yield _inline(child)
        else:
            yield _text_of(child)


def _hidden(element: Tag) -> bool:
    if element.name in _DROPPED or element.has_attr("hidden") or element.get("aria-hidden") == "true":
        return True
    # The same page in another language.
    if element.name == "a" and element.has_attr("hreflang"):
        return True
    return _INVISIBLE.search(_style(element)) is not None or element.get("role") in _HIDING_ROLES


def _unseen(element: Tag) -> bool:
    """Whether the page hides the element by its own words, or writes it in white on nothing that is dark."""
    if element.name in _DROPPED:
        return False
    style = _style(element)
    if element.has_attr("hidden") or _INVISIBLE.search(style):
        return True
    white = _WHITE.search(style) or str(element.get("color") or "").lower() in ("white", "#fff", "#ffffff")
    return bool(white) and not any(
        "background" in _style(one) or one.has_attr("bgcolor") for one in (element, *element.parents)
    )


def _style(element: Tag) -> str:
    return str(element.get("style") or "").replace(" ", "").lower()


def _holds_blocks(element: Tag) -> bool:
    # The library's own search builds a filter for each name, each time.
    return any(isinstance(one, Tag) and one.name in _BLOCKS for one in element.descendants)


def _grid(element: Tag) -> str:
    """A Markdown table, or empty where the element only arranges the page, or holds text outside of its cells."""
    if element.find(["table", "h1", "h2", "h3"]):
        return ""
    rows = _rows(element)
    text = table(rows)
    if len(rows) < 2 or max(map(len, rows)) < 2 or _letters(text) < _letters(_inline(element)):
        return ""
    return text


def _letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def _rows(element: Tag) -> list[list[str]]:
    rows: list[list[str]] = []
    for row in element.find_all("tr"):
        cells = [cell for cell in row.find_all(["th", "td"]) if not _hidden(cell)]
        rows.append([_inline(cell).replace("\v", " ") for cell in cells])
    return rows
