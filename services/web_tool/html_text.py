"""HTML to its title and main text, without what a person would not see."""

import re
from typing import Any

import trafilatura

from services.web_tool.hidden import remove_hidden
from services.web_tool.invisible import cleaned
from services.web_tool.trees import CONTROLS, Element, html_tree

_extract: Any = trafilatura.extract
_BLOCKS = (
    "address", "article", "aside", "blockquote", "br", "caption", "dd", "details", "div", "dl", "dt", "figcaption",
    "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "p",
    "pre", "section", "summary", "table", "td", "th", "tr", "ul",
)  # fmt: skip
# The search for the main text takes seconds on larger pages; they are read whole.
_MAX_SEARCHED_ELEMENTS = 15_000
_CHECKED_CHARS = 500_000
# Nothing in a page as short as this is worth leaving out.
_TINY_PAGE_CHARS = 300
# A main text of less than this part of a short page has lost something.
_LEAST_PART, _SHORT_PAGE_CHARS = 0.3, 2000
_BLANKS = re.compile(r"[^\S\n]+")
_LINES = re.compile(r"\s*\n\s*")


def read_html(text: str, url: str) -> tuple[str, str, bool]:
    """Title, main text, and whether something hidden was taken out. Raises Unreadable."""
    tree = html_tree(text)
    title = _title(tree)
    removed = remove_hidden(tree)
    whole = whole_text(tree)
    # Told here: the search for the main text drops some without a word.
    removed = removed or cleaned(whole[:_CHECKED_CHARS])[1]
    main = ""
    if len(whole) > _TINY_PAGE_CHARS and sum(1 for _ in tree.iter()) <= _MAX_SEARCHED_ELEMENTS:
        main = _extract(tree, url=url, include_tables=True, include_comments=False, favor_recall=True) or ""
    lost_much = len(whole) <= _SHORT_PAGE_CHARS and len(main) < _LEAST_PART * len(whole)
    return title, whole if lost_much or not main else main, removed


def _title(tree: Element) -> str:
    """Of the head, not one of a picture within the page; else the first heading."""
    for path in ("/html/head/title", "//title[not(ancestor::*[local-name()='svg'])]", "//h1"):
        for element in tree.xpath(path)[:1]:
            if title := " ".join(element.text_content().split()):
                return title
    return ""


def whole_text(tree: Element) -> str:
    """All text, a line for each block."""
    for element in tree.iter(*_BLOCKS):
        # What a reference such as `&#12;` has brought in may be read there, but not written back.
        element.tail = "\n" + CONTROLS.sub("", element.tail or "")
        element.text = "\n" + CONTROLS.sub("", element.text or "")
    text = _BLANKS.sub(" ", tree.text_content())
    return _LINES.sub("\n", text).strip()
