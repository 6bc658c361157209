"""The demo tenants' documents, ready to be uploaded. `python -m demo.documents FOLDER` writes them out."""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path

from demo import contracts
from demo.formats import WRITERS
from demo.world import World, generate

_FORMATS = tuple(WRITERS)
_MEDIA_TYPES = {
    "md": "text/markdown",
    "html": "text/html",
    "pdf": "application/pdf",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}


@dataclass(frozen=True)
class DocumentFile:
    """A file as it is uploaded. `metadata` are fields to filter by."""

    document_id: str
    collection: str
    title: str
    language: str
    filename: str
    content: bytes = field(repr=False)
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def media_type(self) -> str:
        """The media type to upload it with."""
        return _MEDIA_TYPES[self.filename.rpartition(".")[2]]


@cache
def of_tenant(tenant: str) -> tuple[DocumentFile, ...]:
    """All documents of `demo`, `other` or `tiny`, the same bytes every time. Raises KeyError for another tenant."""
    match tenant:
        case "demo":
            return (*_contract_files(generate()), *_text_files("policies", "policies"))
        case "other" | "tiny":
            return tuple(_text_files(tenant, "documents"))
        case _:
            raise KeyError(f"no demo documents for tenant `{tenant}`; known are demo, other, tiny")


def _contract_files(world: World) -> Iterator[DocumentFile]:
    written: Counter[str] = Counter()
    for contract_id in world.conditions:
        contract = world.contract(contract_id)
        provider = world.provider(contract)
        metadata = {
            "contract_id": contract.id,
            "provider": provider.name,
            "country": provider.country,
            "region": provider.region_code,
            "year": contract.id[3:7],
            "category": contract.category,
        }
        yield _file(
            contract.id,
            "contracts",
            contracts.write(world, contract),
            contract.language,
            # Each language goes through all formats in turn.
            _FORMATS[written[contract.language] % len(_FORMATS)],
            metadata,
        )
        written[contract.language] += 1


def _text_files(folder: str, collection: str) -> Iterator[DocumentFile]:
    for language in ("es", "en"):
        texts = files("demo").joinpath("texts", folder, language).iterdir()
        for index, path in enumerate(sorted(texts, key=lambda path: path.name)):
            name = path.name.removesuffix(".md")
            kind = _FORMATS[index % len(_FORMATS)]
            yield _file(name, collection, path.read_text(encoding="utf-8"), language, kind, {"topic": name})


def _file(
    document_id: str, collection: str, markdown: str, language: str, kind: str, metadata: Mapping[str, str]
) -> DocumentFile:
    title = markdown.partition("\n")[0].removeprefix("# ")
    content = WRITERS[kind](markdown, title, language)
    return DocumentFile(document_id, collection, title, language, f"{document_id}.{kind}", content, metadata)


def write_all(folder: Path) -> int:
    """Writes every tenant's files and a manifest below `folder`; answers how many files there are."""
    manifest: list[dict[str, object]] = []
    for tenant in ("demo", "other", "tiny"):
        for document in of_tenant(tenant):
            path = folder / tenant / document.collection / document.filename
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(document.content)
            manifest.append(
                {
                    "path": str(path.relative_to(folder)),
                    "document_id": document.document_id,
                    "title": document.title,
                    "language": document.language,
                    "metadata": dict(document.metadata),
                }
            )
    (folder / "manifest.json").write_text(json.dumps(manifest, ensure_ascii=False, indent=1), encoding="utf-8")
    return len(manifest)


def main(arguments: list[str]) -> int:
    """Entry point. Status 64 on wrong usage."""
    if len(arguments) != 1:
        print("usage: python -m demo.documents FOLDER", file=sys.stderr)
        return 64
    folder = Path(arguments[0])
    print(f"{write_all(folder)} documents and manifest.json are in {folder}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
