"""What cutting a document into chunks is about: sizes, settings of a collection, tools, and the chunk itself."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from services.runtime.recognition.injections.detector import Suspect

Strategy = Literal["structure", "fixed", "sentences", "recursive", "semantic", "code"]

# Tokens of each text as the embedding model counts them, prefix and special tokens left out.
Count = Callable[[Sequence[str]], Awaitable[Sequence[int]]]
# Dense vectors of unit length.
Embed = Callable[[Sequence[str]], Awaitable[Sequence[Sequence[float]]]]

# Room in the model's window for prefix, special tokens and the title that is put before the text.
_CONTEXT_TOKENS = 96
_SMALLEST = 16


@dataclass(frozen=True)
class Sizes:
    """Sizes of chunks in tokens of the embedding model, prefix and context not counted.

    `min_tokens` is what smaller neighbours are joined up to. `parent_tokens` is the size of the larger passages that
    are read in place of those found; 0 means none.
    """

    min_tokens: int = 200
    max_tokens: int = 350
    overlap_tokens: int = 40
    parent_tokens: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError for sizes that can never be met."""
        if not 0 < self.min_tokens <= self.max_tokens:
            raise ValueError("min_tokens must be above 0 and not above max_tokens.")
        if not 0 <= self.overlap_tokens < self.max_tokens:
            raise ValueError("overlap_tokens must be smaller than max_tokens.")
        if self.parent_tokens and self.parent_tokens <= self.max_tokens:
            raise ValueError("parent_tokens must be above max_tokens, or 0.")

    def within(self, window_tokens: int) -> "Sizes":
        """The same, made smaller where the model's window is small. Parents are never embedded: they stay."""
        most = min(self.max_tokens, max(_SMALLEST, window_tokens - _CONTEXT_TOKENS))
        overlap = self.overlap_tokens if most == self.max_tokens else min(self.overlap_tokens, most // 4)
        return Sizes(min(self.min_tokens, most), most, overlap, self.parent_tokens)


@dataclass(frozen=True)
class Chunking:
    """How a collection wants its documents cut. 0, and None for the overlap: the server's default."""

    strategy: Strategy = "structure"
    max_tokens: int = 0
    min_tokens: int = 0
    overlap_tokens: int | None = None
    parent_tokens: int = 0

    def sizes(self, defaults: Sizes) -> Sizes:
        """With defaults where nothing is said; those give way to what is. Raises ValueError that names the fields."""
        most = self.max_tokens or max(defaults.max_tokens, self.min_tokens)
        if self.parent_tokens and not self.max_tokens:
            # Whoever wants parents wants small chunks below them.
            most = max(self.min_tokens, min(most, self.parent_tokens // 2), 1)
        least = self.min_tokens or min(defaults.min_tokens, most)
        overlap = self.overlap_tokens
        if overlap is None:
            overlap = (
                defaults.overlap_tokens if most >= defaults.max_tokens else min(defaults.overlap_tokens, most // 4)
            )
        return Sizes(least, most, overlap, self.parent_tokens)


@dataclass(frozen=True)
class Tools:
    """What strategies may ask of the embedding model. `window_tokens` includes prefix and special tokens."""

    count: Count
    embed: Embed
    window_tokens: int = 512


@dataclass(frozen=True)
class Chunk:
    """A piece of a document. `text` is searched and cited; `context` (title, headings) is embedded before it.

    `page` is that on which the text begins, from 1, or 0; `position` counts from 0. `parent_text` is the larger
    passage that is read in its place, empty where that is the text itself. `suspicious`: parts of the text that seem to
    give orders to a model. `scanned_by`: the detector that judged the text that is read; `scan_score`: the worst in it,
    from 0.4 on.
    """

    text: str
    context: str
    section: tuple[str, ...]
    page: int
    position: int
    token_count: int
    parent_text: str = ""
    suspicious: Sequence[Suspect] = ()
    scanned_by: str = ""
    scan_score: float = 0.0

    @property
    def embedded(self) -> str:
        """What the model sees."""
        return f"{self.context}\n{self.text}" if self.context else self.text
