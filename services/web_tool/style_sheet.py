"""What the style sheets within a page hide: rules of one class or id by its name, others in the tree."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from services.web_tool.colors import Color
from services.web_tool.selectors import Matching
from services.web_tool.style import hides, without_comments
from services.web_tool.trees import Element
from services.web_tool.unreadable import Unreadable

_MAX_CSS_CHARS = 200_000
_SIMPLE_SELECTOR = re.compile(r"([a-z][a-z0-9]*|\*)?((?:[.#][a-z_-][\w-]*)+)", re.IGNORECASE)
_SHOWING = re.compile(r"\b(?:display|visibility|opacity)\s*:", re.IGNORECASE)
# Blocks whose rules hold on a screen of ordinary size. What depends on its width could hide a menu or the page.
_ALWAYS = re.compile(
    r"@(?:media\s+(?:(?:only\s+)?(?:screen|all)|not\s+print)|supports\b.*|layer\b.*|container\b.*|scope\b.*)"
    r"|@media\s+(?:(?:only\s+)?screen\s+and\s+)?\(\s*min-(?:device-)?width\s*:\s*\d{1,3}(?:px|em)?\s*\)",
    re.IGNORECASE | re.DOTALL,
)
_STATE = re.compile(r":(?:hover|focus|active|target|checked|visited|focus-within|focus-visible)\b", re.IGNORECASE)
# Other selectors are looked for in the whole page.
_MAX_SELECTOR_CHARS, _MAX_SECONDS, _MAX_NESTED = 200, 1.0, 20
_STRING = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'")


class _Hidden(NamedTuple):
    tag: str
    classes: frozenset[str]
    ids: frozenset[str]


@dataclass
class StyleSheet:
    """Rules that hide, by one of their names; and the names of which some rule shows what others hide."""

    _hidden: dict[str, list[_Hidden]] = field(default_factory=dict[str, list[_Hidden]])
    _shown: set[str] = field(default_factory=set[str])
    _complex: list[str] = field(default_factory=list[str])
    _found: set[Element] = field(default_factory=set[Any])

    @classmethod
    def of(cls, tree: Element, behind: Color | None = None) -> "StyleSheet":
        """Of all `style` elements of a page, those for other media than a screen left out.

        `behind` is the colour of the page, None where that is not known.
        """
        sheet = cls()
        texts = (style.text or "" for style in tree.iter("style") if "print" not in (style.get("media") or ""))
        for selectors, declarations in _rules("\n".join(texts)[:_MAX_CSS_CHARS]):
            if hides(declarations, behind):
                sheet._add(selectors)
            elif _SHOWING.search(declarations):
                sheet._shown.update(re.findall(r"[.#]([\w-]+)", selectors.lower()))
        sheet._look(tree)
        return sheet

    def _add(self, selectors: str) -> None:
        divided = [selectors] if re.search("[\"'(]", selectors) else selectors.split(",")
        for selector in map(str.strip, divided):
            found = _SIMPLE_SELECTOR.fullmatch(selector.lower())
            if found is not None:
                classes = frozenset(re.findall(r"\.([\w-]+)", found[2]))
                ids = frozenset(re.findall(r"#([\w-]+)", found[2]))
                hidden = _Hidden(found[1] or "*", classes, ids)
                self._hidden.setdefault(min(classes | ids), []).append(hidden)
            elif len(selector) <= _MAX_SELECTOR_CHARS and not _STATE.search(selector):
                self._complex.append(selector)

    def _look(self, tree: Element) -> None:
        """Finds what the selectors hide that are more than names. Raises Unreadable when that takes too long.

        To leave the others out would show what stands behind a few that are made to take long.
        """
        ends = time.monotonic() + _MAX_SECONDS
        matching = Matching(tree)
        for selector in dict.fromkeys(self._complex):
            if time.monotonic() > ends:
                raise Unreadable("content", "The page's style sheets take too long to read.")
            names = set(re.findall(r"[.#]([\w-]+)", selector.lower()))
            if not names & self._shown:
                self._found.update(found for found in matching.elements(selector) if found.tag not in ("html", "body"))

    def hides(self, element: Element) -> bool:
        """Whether a rule hides the element and none shows its like in some state, as those of tabs and menus do."""
        if element in self._found:
            return True
        if not self._hidden:
            return False
        classes = set((element.get("class") or "").lower().split())
        ids = set((element.get("id") or "").lower().split())
        return any(
            hidden.tag in ("*", element.tag)
            and hidden.classes <= classes
            and hidden.ids <= ids
            and not (hidden.classes | hidden.ids) & self._shown
            for name in (classes | ids) & self._hidden.keys()
            for hidden in self._hidden[name]
        )


def _rules(css: str) -> Iterator[tuple[str, str]]:
    """Selectors and declarations of the rules that hold on every screen."""
    css = _STRING.sub(_closed, without_comments(css)).replace("<!--", " ").replace("-->", " ")
    # A sheet that ends within a rule is closed by its end.
    css += "}" * max(0, min(css.count("{") - css.count("}"), 20))
    blocks: list[str] = []
    start = 0
    for brace in re.finditer("[{}]", css):
        if len(blocks) > _MAX_NESTED:
            return
        own, _, selectors = css[start : brace.start()].rpartition(";" if brace[0] == "{" else "}")
        start = brace.end()
        if blocks and _holds(blocks):
            yield blocks[-1], own or selectors
        if brace[0] == "{":
            blocks.append(_nested(selectors.strip(), blocks))
        elif blocks:
            blocks.pop()


def _holds(blocks: list[str]) -> bool:
    outer = (block for block in blocks[:-1] if block.startswith("@"))
    return not blocks[-1].startswith("@") and all(_ALWAYS.fullmatch(block) for block in outer)


def _nested(selectors: str, blocks: list[str]) -> str:
    """Selectors of a rule that may stand within another."""
    outer = next((block for block in reversed(blocks) if not block.startswith("@")), "")
    if not outer or selectors.startswith("@") or len(outer) + len(selectors) > _MAX_SELECTOR_CHARS:
        return selectors
    return selectors.replace("&", f":is({outer})") if "&" in selectors else f":is({outer}) {selectors}"


def _closed(found: re.Match[str]) -> str:
    """A string without what would divide the sheet."""
    return re.sub(r"[{};]", "_", found[0])
