"""Declarations of CSS that hide an element: read as far as that needs."""

import re
from collections.abc import Iterator, Mapping

from services.web_tool.colors import Color, color_in

_MAX_STYLE_CHARS = 4000
_ESCAPE = re.compile(r"\\(?:([0-9a-f]{1,6})\s?|(.))", re.IGNORECASE | re.DOTALL)
_COMMENT = re.compile(r"/\*.*?(?:\*/|$)", re.DOTALL)
_IMPORTANT = re.compile(r"!\s*important|\\9")
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,3})?"
_LENGTH = re.compile(rf"({_NUMBER})(px|em|rem|pt|vw|vh|vmax|vmin|cm|mm|in|pc|ex|ch|lh|%)?")
_CALCULATED = re.compile(r"(?:calc|min|max|clamp)\((.*)\)")
_PIXELS = {"em": 16, "rem": 16, "vw": 12, "vh": 8, "vmax": 12, "vmin": 8, "cm": 38, "mm": 3.8, "in": 96, "pc": 16,
           "ex": 8, "ch": 8, "pt": 1.33, "lh": 20, "%": 10}  # fmt: skip
_OFF_SCREEN_PIXELS, _FAR_PIXELS = 400, 5000
# Half of itself to the left is how things are put into the middle.
_PERCENT_MOVED = 1
# From here on nobody reads it, whatever it is called.
_LEAST_OPACITY, _LEAST_FONT_PIXELS = 0.05, 2
# From the parent, where the two may differ.
_TAKEN_OVER = ("inherit", "initial", "unset", "revert", "revert-layer")
_CUTTING = ("hidden", "clip", "auto", "scroll")
_SIZES = ("width", "height", "max-width", "max-height", "block-size", "inline-size", "max-block-size")
_SCALE = re.compile(rf"scale(?:[xy]|3d)?\(({_NUMBER}),?")
_MATRIX = re.compile(rf"matrix(?:3d)?\(0(?:\.0+)?,(?:{_NUMBER},){{2}}0(?:\.0+)?,")
_TURNED = re.compile(r"rotate[xy]\(-?(?:90|270)deg\)")
_INSET = re.compile(r"inset\((\d+)(?:\.\d+)?%")
_NOTHING_LEFT = re.compile(r"(?:circle|ellipse)\(0|polygon\((?:0(?:px|%)?,?)+\)")
_CLIPPED_AWAY = re.compile(r"rect\((?:[01](?:px)?,?){4}\)")
_FILTERED = re.compile(r"opacity\(0?(?:\.0\d*)?%?\)|opacity\([0-4](?:\.\d+)?%\)|alpha\(opacity=0\)")

Declarations = Mapping[str, str]


def hides(style: str, behind: Color | None = None) -> bool:
    """Whether declarations of CSS make an element that nobody sees.

    `behind` is the colour that it stands on where it has no background of its own, None where that is not known.
    """
    declared = declarations(style)
    value = declared.get
    return (
        value("display") == "none"
        or value("visibility") in ("hidden", "collapse")
        or value("content-visibility") == "hidden"
        or _is_small(value("opacity"), _LEAST_OPACITY, percent=0.01)
        or _is_small(value("zoom"), _LEAST_OPACITY, percent=0.01)
        or _is_small(value("font-size"), _LEAST_FONT_PIXELS, percent=0.16)
        or bool(_FILTERED.search(_tight(value("filter", ""))))
        or _is_of_no_color(declared, behind)
        or _is_clipped(declared)
        or _is_squeezed(declared)
        or _is_off_screen(declared)
    )


def declarations(style: str) -> Declarations:
    """The value of each property that counts, in lower case, without comments, escapes and `!important`."""
    style = _COMMENT.sub("", _ESCAPE.sub(_unescaped, style[:_MAX_STYLE_CHARS]))
    declared: dict[str, str] = {}
    important: set[str] = set()
    for declaration in _split(style):
        name, _, value = declaration.partition(":")
        name, value = name.strip().lower(), value.lower()
        if "!" in value and _IMPORTANT.search(value):
            important.add(name)
        elif name in important:
            continue
        declared[name] = re.sub(r"\s+", " ", _IMPORTANT.sub("", value)).strip()
    sizes = re.findall(r"(?:^|\s)([\d.]+(?:px|pt|em|rem|%)?)(?:/|\s)", declared.get("font", ""))
    if sizes:
        declared.setdefault("font-size", sizes[0])
    return declared


def _unescaped(found: re.Match[str]) -> str:
    if found[2]:
        return found[2] if found[2] != "9" else ""
    number = int(found[1], 16)
    if number == 9:  # `none\9`, for browsers of long ago
        return ""
    return chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE000 else ""


def _split(style: str) -> Iterator[str]:
    """The parts between semicolons, of which some within quotes and brackets divide nothing."""
    start, depth, quote = 0, 0, ""
    for place, character in enumerate(style):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "()":
            depth = max(0, depth + (1 if character == "(" else -1))
        elif character == ";" and not depth:
            yield style[start:place]
            start = place + 1
    yield style[start:]


def _tight(value: str) -> str:
    return re.sub(r"\s+", "", value)


def _pixels(value: str | None, percent: float = 10) -> float | None:
    """A length in pixels of an ordinary screen, where it is one; `percent` is what one of those is worth."""
    value = value or ""
    if calculated := _CALCULATED.fullmatch(value):
        lengths = [_pixels(found[0], percent) for found in _LENGTH.finditer(calculated[1])]
        return lengths[0] if len(set(lengths)) == 1 else None
    found = _LENGTH.fullmatch(value)
    if found is None:
        return None
    return float(found[1]) * (percent if found[2] == "%" else _PIXELS.get(found[2] or "", 1))


def _is_small(value: str | None, limit: float, percent: float = 10) -> bool:
    size = _pixels(value, percent) if value else None
    return size is not None and size <= limit


def _is_of_no_color(declared: Declarations, behind: Color | None) -> bool:
    """Transparent, or as what is behind it. Text may also be a hole through which its background is seen."""
    if "text" in (declared.get("background-clip"), declared.get("-webkit-background-clip")):
        return False
    text = declared.get("-webkit-text-fill-color") or declared.get("color", "")
    color = color_in(text)
    if color is not None and color.is_transparent:
        return True
    background = declared.get("background-color") or declared.get("background", "")
    if background and text == background and text not in _TAKEN_OVER:
        return True
    own = color_in(background)
    ground = own if own is not None and not own.is_transparent else None if background else behind
    return color is not None and ground is not None and color.is_like(ground)


def _is_clipped(declared: Declarations) -> bool:
    if _CLIPPED_AWAY.fullmatch(re.sub(r"[\s,]+", ",", declared.get("clip", "")).replace("(,", "(")):
        return True
    path = re.sub(r"[\s,]+", ",", declared.get("clip-path", ""))
    inset = _INSET.match(path)
    return bool(inset and int(inset[1]) >= 45) or bool(_NOTHING_LEFT.match(path))


def _is_squeezed(declared: Declarations) -> bool:
    cut = any(declared.get(name, "").split(" ")[0] in _CUTTING for name in ("overflow", "overflow-x", "overflow-y"))
    if cut and (any(_is_small(declared.get(name), 1) for name in _SIZES) or _pixels(declared.get("line-height")) == 0):
        return True
    spacing = _pixels(declared.get("letter-spacing"))
    if spacing is not None and spacing <= -8:
        return True
    transform = _tight(declared.get("transform", ""))
    scales = [found[1] for found in _SCALE.finditer(transform)] + declared.get("scale", "").split(" ")
    return any(_is_small(scale, 0.05) for scale in scales) or bool(
        _MATRIX.search(transform) or _TURNED.search(transform)
    )


def _is_off_screen(declared: Declarations) -> bool:
    value = declared.get
    places = ["text-indent"]
    if value("position") in ("absolute", "fixed", "relative"):
        places += ["left", "right", "top", "bottom", "inset"]
    lengths = [_pixels(value(name)) for name in places]
    lengths += [_pixels(part, _PERCENT_MOVED) for part in _shifts(declared)]
    if any(pixels <= -_OFF_SCREEN_PIXELS for pixels in lengths if pixels is not None):
        return True
    if any((pixels := _pixels(value(name))) is not None and pixels >= _FAR_PIXELS for name in places):
        return True
    indent = _pixels(value("text-indent"))
    return indent is not None and indent >= _OFF_SCREEN_PIXELS and value("overflow", "") in _CUTTING


def _shifts(declared: Declarations) -> Iterator[str]:
    """By how much it is moved from its place, margins that a padding undoes left out."""
    value = declared.get
    for found in re.finditer(r"translate(?:x|y|3d)?\(([^)]*)\)", _tight(value("transform", ""))):
        yield from found[1].split(",")
    yield from value("translate", "").split(" ")
    padding = [_pixels(part) or 0 for name in ("padding", "padding-left") for part in value(name, "").split(" ")]
    if max(padding, default=0) < _OFF_SCREEN_PIXELS:
        margins = value("margin", "").split(" ")
        yield from (value("margin-left", ""), value("margin-top", ""), margins[0], margins[-1])


def without_comments(css: str) -> str:
    """A style sheet, or declarations, without comments."""
    return _COMMENT.sub("", css)
