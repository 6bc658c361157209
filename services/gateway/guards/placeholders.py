"""What stands in the place of what was found: the same for the same, within one request."""


class Placeholders:
    """Names such as `[EMAIL_1]`. They say of what kind a thing was, and which of them."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}

    def name_of(self, kind: str, said: str) -> str:
        """The name for what was said, in whatever writing."""
        key = kind, "".join(filter(str.isalnum, said.casefold()))
        name = self._names.get(key)
        if name is None:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            name = self._names[key] = f"[{kind.upper()}_{self._counts[kind]}]"
        return name
