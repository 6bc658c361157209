"""Lower case without accents, so that words meet however they were typed."""

import unicodedata


class _Folded(dict[int, str]):
    """What each character is folded to, by code point, as `str.translate` asks for it."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        # `½` is no `1`.
        whole = unicodedata.decomposition(char).startswith("<fraction>")
        folded = char if whole else unicodedata.normalize("NFKD", char)[0].lower()[:1] or char
        if len(self) < _MAX_FOLDED:
            self[code] = folded
        return folded


_MAX_FOLDED = 4096
_FOLDED = _Folded()


def fold(text: str) -> str:
    """Lower case without accents. Every character stays one character, so positions are those of `text`."""
    return text.lower() if text.isascii() else text.translate(_FOLDED)
