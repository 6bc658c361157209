"""What questions are written from: a passage with its place, from a folder of texts or from a running installation."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.evaluation.tools.matching import normalised

_SUFFIXES = (".md", ".markdown", ".txt")
_HEADING = re.compile(r"^(#{1,6})\s+(.*)$")
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d{2}(?!\d)")
# Marks of emphasis, tables and lists, which a model leaves out when it quotes.
_MARKS = re.compile(r"[*_`|#>]+")


@dataclass(frozen=True)
class Chunk:
    """A passage. `kind` is its collection or folder; `year` 0 where nothing tells it."""

    document: str
    text: str
    title: str = ""
    section: str = ""
    language: str = "en"
    kind: str = ""
    year: int = 0

    @property
    def id(self) -> str:
        """Changes with what is in it and where that stands."""
        place = "\n".join([self.document, self.section, self.text])
        return hashlib.sha256(place.encode()).hexdigest()[:16]

    @property
    def stratum(self) -> tuple[str, int, str]:
        """What a sample is spread over: kind, date, and the outermost section."""
        return self.kind, self.year, self.section.split(" > ")[0]

    def holds(self, quote: str) -> bool:
        """Whether the quote stands in it, but for case, accents, spaces and marks."""
        wanted = plain(quote)
        return bool(wanted) and wanted in plain(self.text)


def plain(text: str) -> str:
    """For comparison: `normalised`, without the marks of Markdown."""
    return normalised(_MARKS.sub(" ", text))


def from_gateway(document: Mapping[str, Any], passages: list[Mapping[str, Any]]) -> list[Chunk]:
    """The chunks of a document as `GET /v1/documents/{id}/chunks` shows them."""
    metadata: Mapping[str, Any] = document.get("metadata") or {}
    year = _year(str(metadata.get("year") or document.get("created_at") or ""))
    return [
        Chunk(
            str(one["document_id"]),
            # The part that was matched, not the larger one around it.
            str(one.get("matched_text") or one["text"]),
            str(one.get("title", "")),
            str(one.get("section", "")),
            _language(one.get("language") or document.get("language")),
            str(one.get("collection", "")),
            year,
        )
        for one in passages
    ]


def from_folder(folder: Path, language: str) -> list[Chunk]:
    """Markdown and plain text below a folder, a section a chunk; the document's id is the file's name without its end.

    A folder named after a language (es, en) says so of what is in it. Raises OSError and UnicodeDecodeError.
    """
    chunks: list[Chunk] = []
    for path in sorted(one for one in folder.rglob("*") if one.suffix.lower() in _SUFFIXES and one.is_file()):
        folders = path.relative_to(folder).parts[:-1]
        spoken = next((one for one in reversed(folders) if one in ("es", "en")), language)
        kind = next((one for one in folders if one not in ("es", "en")), folder.name)
        text = path.read_text(encoding="utf-8")
        title = next((match[2] for line in text.split("\n") if (match := _HEADING.match(line))), path.stem)
        for section, body in _sections(text):
            chunks.append(Chunk(path.stem, body, title, section, spoken, kind, _year(text)))
    return chunks


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Headings joined from the outermost on, each with the text below it."""
    above: list[tuple[int, str]] = []
    body: list[str] = []
    for line in [*text.split("\n"), "# "]:
        if match := _HEADING.match(line):
            if told := "\n".join(body).strip():
                yield " > ".join(name for _, name in above), told
            above = [one for one in above if one[0] < len(match[1])] + [(len(match[1]), match[2].strip())]
            body = []
        else:
            body.append(line)
    if told := "\n".join(body).strip():
        yield " > ".join(name for _, name in above), told


def _year(text: str) -> int:
    found = _YEAR.search(text)
    return int(found[0]) if found else 0


def _language(value: Any) -> str:
    return "es" if str(value or "").startswith("es") else "en"
