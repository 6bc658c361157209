"""Takes out of a page what a browser would not show: by attribute, by style, by the rules of its own style sheets.

What needs a layout is not seen here: text behind other things, hidden by an external style sheet or by a script, or in
the colour of what is behind it where a style sheet of the page or an external one says what that is.
"""

import re

from services.web_tool.colors import WHITE, Color, color_in
from services.web_tool.style import declarations, hides
from services.web_tool.style_sheet import StyleSheet
from services.web_tool.trees import CONTROLS, Element, etree

# Never shown, or shown only where something else cannot be.
_NEVER = (
    "script", "style", "template", "noscript", "iframe", "frame", "noframes", "object", "embed", "applet", "canvas",
    "audio", "video", "picture", "svg", "datalist", "meta", "link", "base", "title", "noembed", "annotation",
    "annotation-xml",
)  # fmt: skip
_COLORED = re.compile("color", re.IGNORECASE)
_PICTURED = re.compile(r"(?:url|gradient|image)\(")
# A caption says what a picture shows; what has more words may speak to the reader of the text.
_CAPTION_WORDS = 6
_SPOKEN = ("alt", "title", "aria-label", "aria-description", "summary", "placeholder")


def remove_hidden(tree: Element) -> bool:
    """Removes it in place; returns whether words went that could have been meant for a reader of the text."""
    page = WHITE if _is_blank(tree) else None
    sheet = StyleSheet.of(tree, page)
    grounds = _Grounds(page)
    hidden = [element for element in tree.iter() if _is_hidden(element, sheet, grounds)]
    told = any(_speaks(element) for element in tree.iter(etree.Element))
    for element in hidden:
        told = told or (isinstance(element.tag, str) and element.tag not in _NEVER and _has_words(element))
        if element.getparent() is not None:
            _remove(element)
    return told


def _remove(element: Element) -> None:
    """Without its tail, which stands behind it and is shown."""
    parent, previous, tail = element.getparent(), element.getprevious(), element.tail
    parent.remove(element)
    if tail and previous is not None:
        previous.tail = _writable(f"{previous.tail or ''} {tail}")
    elif tail:
        parent.text = _writable(f"{parent.text or ''} {tail}")


def _writable(text: str) -> str:
    """Without what lxml reads and does not write: a reference such as `&#12;` brings it in."""
    return CONTROLS.sub("", text)


def _speaks(element: Element) -> bool:
    return any(len((element.get(name) or "").split()) >= _CAPTION_WORDS for name in _SPOKEN)


def _has_words(element: Element) -> bool:
    return any(character.isalnum() for text in element.itertext() for character in text[:200])


def _is_blank(tree: Element) -> bool:
    """Whether nothing in the page gives it a background, so that it is as white as browsers make it."""
    if tree.xpath("boolean(//*[@bgcolor or @background] | //link[contains(@rel, 'stylesheet')])"):
        return False
    styles = (element.get("style") or "" for element in tree.iter(etree.Element))
    sheets = (element.text or "" for element in tree.iter("style"))
    return not any("background" in css.lower() or "@import" in css for part in (styles, sheets) for css in part)


def _is_hidden(element: Element, sheet: StyleSheet, grounds: "_Grounds") -> bool:
    tag = element.tag
    # Comments and processing instructions have no name.
    if not isinstance(tag, str) or tag in _NEVER:
        return True
    if tag in ("html", "body"):
        return False
    if element.get("hidden") is not None or (element.get("aria-hidden") or "").strip().lower() == "true":
        return True
    if (tag == "dialog" and element.get("open") is None) or element.get("popover") is not None:
        return True
    style = element.get("style") or ""
    if tag == "font" and element.get("color"):
        style = f"color:{element.get('color')};{style}"
    behind = grounds.of(element.getparent()) if style and _COLORED.search(style) else None
    return bool(style and hides(style, behind)) or sheet.hides(element)


class _Grounds:
    """What elements stand on, as far as attributes say; None where they do not."""

    def __init__(self, page: Color | None) -> None:
        self._page = page
        self._known: dict[Element, Color | None] = {}

    def of(self, element: Element | None) -> Color | None:
        """Of what is in the element."""
        if element is None:
            return self._page
        if element not in self._known:
            self._known[element] = self._look(element)
        return self._known[element]

    def _look(self, element: Element) -> Color | None:
        declared = declarations(element.get("style") or "")
        value = declared.get("background-color") or declared.get("background") or element.get("bgcolor") or ""
        if "background-image" in declared or _PICTURED.search(value):
            return None
        if value:
            color = color_in(value)
            return None if color is None or color.is_transparent else color
        # A class may give it one of its own.
        if self._page is None and (element.get("class") or element.get("id")):
            return None
        return self.of(element.getparent())
