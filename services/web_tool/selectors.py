"""Selectors of CSS on a tree of lxml, in a time that a hostile page cannot make long.

cssselect reads them and makes XPath of each part. Of the whole it could, too, but libxml2 takes minutes to find what is
within two of many nested elements.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import cssselect
import cssselect.parser

from services.web_tool.trees import Element, etree

_TRANSLATOR: Any = cssselect.HTMLTranslator()
_PARSER: Any = cssselect.parser
# Of more parts, or further apart, they are taken to match.
_MAX_PARTS, _MAX_SIBLINGS = 6, 50


class _Part(NamedTuple):
    """What an element is, and how it stands to that of the part before: blank, `>`, `+` or `~`."""

    elements: frozenset[Element]
    combinator: str


class Matching:
    """What selectors find in one tree."""

    def __init__(self, tree: Element) -> None:
        self._tree = tree
        self._found: dict[str, frozenset[Element]] = {}

    def elements(self, selectors: str) -> Iterator[Element]:
        """Elements that one of the selectors matches, nothing for what cannot be read or is no element."""
        try:
            chains = [self._parts(one.parsed_tree) for one in _PARSER.parse(selectors) if one.pseudo_element is None]
        except (cssselect.SelectorError, etree.XPathError, RecursionError, ValueError, TypeError):
            return
        for last, *before in chains:
            yield from (element for element in last.elements if _stands(element, last.combinator, before))

    def _parts(self, node: Any) -> Sequence[_Part]:
        """The last one first."""
        parts: list[_Part] = []
        while len(parts) < _MAX_PARTS:
            is_combined = isinstance(node, _PARSER.CombinedSelector)
            part = node.subselector if is_combined else node
            parts.append(_Part(self._one(part), node.combinator if is_combined else ""))
            if not is_combined:
                break
            node = node.selector
        return parts

    def _one(self, part: Any) -> frozenset[Element]:
        path: str = _TRANSLATOR.selector_to_xpath(_PARSER.Selector(part))
        if path not in self._found:
            self._found[path] = frozenset(self._tree.xpath(path))
        return self._found[path]


def _stands(element: Element, combinator: str, before: Sequence[_Part]) -> bool:
    """Whether around or before the element stand those that the parts before want."""
    for part in before:
        around: Iterator[Element]
        match combinator:
            case ">":
                around = (parent for parent in (element.getparent(),) if parent is not None)
            case "+" | "~":
                around = element.itersiblings(etree.Element, preceding=True)
            case _:
                around = element.iterancestors()
        for distance, other in enumerate(around):
            if other in part.elements:
                element = other
                break
            if combinator == "~" and distance >= _MAX_SIBLINGS:
                break
            if combinator == "+":
                return False
        else:
            return False
        combinator = part.combinator
    return True
