"""Colours of CSS: read as far as telling text from what is behind it needs."""

import re
from typing import NamedTuple

_NAMES = {
    "white": 0xFFFFFF, "snow": 0xFFFAFA, "ghostwhite": 0xF8F8FF, "whitesmoke": 0xF5F5F5, "floralwhite": 0xFFFAF0,
    "ivory": 0xFFFFF0, "mintcream": 0xF5FFFA, "azure": 0xF0FFFF, "seashell": 0xFFF5EE, "black": 0x000000,
    "red": 0xFF0000, "blue": 0x0000FF, "yellow": 0xFFFF00, "green": 0x008000, "gray": 0x808080, "grey": 0x808080,
    "silver": 0xC0C0C0, "navy": 0x000080,
}  # fmt: skip
_HEX = re.compile(r"#(?:[0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})(?![0-9a-z])")
_FUNCTION = re.compile(r"(rgb|hsl)a?\(([^()]{1,80})\)")
_WORD = re.compile(r"[a-z]+(?![a-z(-])")
_ALIKE = 48
_LEAST_ALPHA = 0.1


class Color(NamedTuple):
    """Red, green and blue, 0 to 255, and opacity, 0 to 1."""

    red: float
    green: float
    blue: float
    alpha: float = 1.0

    @property
    def is_transparent(self) -> bool:
        """Whether nobody sees it."""
        return self.alpha <= _LEAST_ALPHA

    def is_like(self, other: "Color") -> bool:
        """Whether text of the one colour on the other cannot be read."""
        return sum(abs(mine - theirs) for mine, theirs in zip(self[:3], other[:3], strict=True)) <= _ALIKE


WHITE = Color(255, 255, 255)
_TRANSPARENT = Color(0, 0, 0, 0)


def color_in(value: str) -> Color | None:
    """The first colour in the value of a property, such as `background`; None where it has none that is known."""
    value = value.lower()
    if found := _FUNCTION.search(value):
        return _of_function(found[1], re.split(r"[\s,/]+", found[2].strip()))
    if found := _HEX.search(value):
        return _of_hex(found[0][1:])
    for word in _WORD.findall(value):
        if word == "transparent":
            return _TRANSPARENT
        if word in _NAMES:
            return _of_hex(f"{_NAMES[word]:06x}")
    return None


def _of_hex(digits: str) -> Color:
    if len(digits) <= 4:
        digits = "".join(2 * digit for digit in digits)
    red, green, blue, alpha = (int(digits[i : i + 2] or "ff", 16) for i in (0, 2, 4, 6))
    return Color(red, green, blue, alpha / 255)


def _of_function(name: str, parts: list[str]) -> Color | None:
    try:
        numbers = [float(part.removesuffix("%").removesuffix("deg")) for part in parts]
    except ValueError:
        return None
    if len(numbers) not in (3, 4):
        return None
    alpha = numbers[3] / (100 if parts[3].endswith("%") else 1) if len(numbers) == 4 else 1.0
    if name == "rgb":
        red, green, blue = (n * 2.55 if part.endswith("%") else n for n, part in zip(numbers, parts[:3], strict=False))
        return Color(red, green, blue, alpha)
    # Only how light it is counts where there is nearly no saturation; other hues are like nothing.
    is_gray = numbers[1] <= 10 or numbers[2] in (0, 100)
    level = numbers[2] * 2.55 if is_gray else -255
    return Color(level, level, level, alpha)
