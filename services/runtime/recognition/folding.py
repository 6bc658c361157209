"""One form for all the ways in which a text can be written, with the way back to where each character stood."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

# Letters of other alphabets that look like Latin ones, in either case, and Latin ones that Unicode does not decompose.
_LATIN = {
    capital.casefold(): latin
    for capital, latin in zip(
        "АВЕЅІЈКМНОРСТХУԀԚԜҺӀΑΒΕΖΗΙΚΜΝΟΡΤΥΧØŁĐŦÆŒ", "abesijkmhopctxydqwhlabezhikmnoptyxoldtao", strict=True
    )
} | {"ı": "i"}
# The first of 26 letters each: negative circled, negative squared, regional indicators.
_BOXED = (0x1F150, 0x1F170, 0x1F1E6)
# They take no room, though Unicode calls them letters or symbols.
_FILLERS = "\u115f\u1160\u3164\uffa0\u2800"


@dataclass(frozen=True)
class Folded:
    """`text` without accents, compatibility forms, invisible characters and foreign digits; case is kept.

    `origin[i]` is the index, in the original text, of the character that `text[i]` comes from.
    """

    text: str
    origin: Sequence[int]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The part of the original text that `text[start:end]` comes from."""
        return self.origin[start], self.origin[end - 1] + 1


def fold(text: str) -> Folded:
    """The folded form of `text`."""
    characters: list[str] = []
    origin: list[int] = []
    for index, original in enumerate(text):
        for character in _plain(original):
            characters.append(character)
            origin.append(index)
    return Folded("".join(characters), origin)


def _plain(original: str) -> str:
    if original.isascii():
        return original if original.isprintable() else " "
    for first in _BOXED:
        if first <= ord(original) < first + 26:
            return chr(ord("A") + ord(original) - first)
    return "".join(map(_one, unicodedata.normalize("NFKD", original)))


def _one(character: str) -> str:
    category = unicodedata.category(character)
    folded = character.casefold()  # a combining iota becomes a letter
    if (category in ("Mn", "Me", "Cf") and folded == character) or character in _FILLERS:
        return ""
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if category == "Pd":
        return "-"
    if category in ("Zs", "Zl", "Zp", "Cc"):
        return " "
    latin = _LATIN.get(folded, character)
    return latin.upper() if character.isupper() else latin
