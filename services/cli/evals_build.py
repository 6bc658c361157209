"""`sabueso evals build`: has a model write a golden set from documents, checks what it wrote, draws some for review."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer
from pydantic import ValidationError
from rich.markdown import Markdown
from rich.progress import Progress

from services.cli.client import Client
from services.cli.console import complaints, connect, fail, out
from services.cli.evals_model import embedder_of, model_of

if TYPE_CHECKING:
    from services.evaluation.golden.building.build import Built, Plan
    from services.evaluation.golden.building.chunk import Chunk
    from services.evaluation.golden.building.journal import Journal
    from services.evaluation.golden.sets import About


def build(
    out_folder: Annotated[Path, typer.Argument(metavar="SET", help="Folder that gets the set.")],
    texts: Annotated[Path | None, typer.Option("--texts", help="Folder of Markdown and text to write from.")] = None,
    collection: Annotated[list[str] | None, typer.Option(help="Collections to write from; default: all.")] = None,
    name: Annotated[str, typer.Option(help="Of the set; default: the folder's.")] = "",
    licence: Annotated[str, typer.Option(help="SPDX identifier of the texts' licence.")] = "LicenseRef-internal",
    language: Annotated[str, typer.Option(help="Of --texts, where no folder is called es or en.")] = "en",
    model: Annotated[str, typer.Option(help="Model that writes; default: the gateway's first.")] = "",
    model_url: Annotated[str, typer.Option(help="OpenAI-compatible URL; default: the gateway's.")] = "",
    model_key: Annotated[str, typer.Option(envvar="SABUESO_EVALS_MODEL_KEY", help="Key for --model-url.")] = "",
    embedding_url: Annotated[
        str,
        typer.Option(help="Embeds questions, to find the same in other words; default: the gateway's, if it is used."),
    ] = "",
    embedding_model: Annotated[str, typer.Option(help="Of --embedding-url.")] = "",
    chunks: Annotated[int, typer.Option(min=1, help="Passages to write from.")] = 60,
    per_chunk: Annotated[int, typer.Option(min=1, max=5, help="Questions of each, at most.")] = 2,
    dev_share: Annotated[float, typer.Option(min=0, max=1, help="Of the items that are for development.")] = 0.5,
    review_share: Annotated[float, typer.Option(min=0, max=1, help="Of the items that people look at.")] = 0.15,
    least_characters: Annotated[int, typer.Option(min=1, help="Of a passage.")] = 200,
    max_calls: Annotated[int, typer.Option(min=0, help="Calls of the model; 0: any number.")] = 0,
    concurrency: Annotated[int, typer.Option(min=1, max=64)] = 4,
    seed: Annotated[int, typer.Option(help="Another one draws other passages.")] = 1,
) -> None:
    """Have a model write a golden set, check what it wrote, and draw some of it for review.

    Stopped with Ctrl-C, or by a failure, the same command goes on where it was. Exit status 0: the set is whole,
    2: steps failed or the budget was used up; what there is has been written, and the same command goes on.
    """
    from services.evaluation.golden.building.build import Plan

    plan = Plan(
        chunks,
        per_chunk,
        dev_share=dev_share,
        least_characters=least_characters,
        seed=seed,
        concurrency=concurrency,
    )
    found = _from_folder(texts, language) if texts else _from_gateway(collection)
    if not found:
        fail("There are no passages to write from.")
    url, key, model = model_of(model_url, model_key, model)
    about = _about(name or out_folder.resolve().name.lower(), licence, model, found)
    if embedding_url and not embedding_model:
        fail("--embedding-url needs an --embedding-model.")
    uses_gateway = not (texts and model_url)
    server = Server(url, key, model, max_calls)
    # One key for what is not the gateway: few have two.
    meaning = Meaning(uses_gateway, embedding_url, embedding_model, model_key)
    _build(out_folder, found, plan, server, about, review_share, meaning)


@dataclass(frozen=True)
class Server:
    """Where a model answers, with which key, which one, and how often at most (0: any number)."""

    url: str
    key: str
    model: str
    max_calls: int


@dataclass(frozen=True)
class Meaning:
    """What embeds questions; see `embedder_of`."""

    gateway: bool
    url: str
    model: str
    key: str


def _build(
    folder: Path,
    chunks: "list[Chunk]",
    plan: "Plan",
    server: Server,
    about: "About",
    review_share: float,
    meaning: Meaning,
) -> None:
    from services.evaluation.golden.building.journal import BrokenJournal, Journal
    from services.evaluation.golden.building.publish import JOURNAL, Taken, check_free, publish
    from services.evaluation.golden.sets import BrokenSet

    try:
        check_free(folder)
        with Journal(folder / JOURNAL) as journal, Progress(console=complaints, transient=True) as bar:
            built = asyncio.run(_written(chunks, plan, server, journal, bar, meaning))
        report = publish(folder, about, built, review_share=review_share, seed=plan.seed)
    except KeyboardInterrupt:
        complaints.print("Stopped. Nothing that was done is lost; the same command goes on.")
        raise typer.Exit(130) from None
    except (BrokenJournal, BrokenSet, Taken, OSError) as error:
        fail(str(error))
    out.print(Markdown(report))
    if not built.report.is_whole:
        raise typer.Exit(2)


async def _written(
    chunks: "list[Chunk]", plan: "Plan", server: Server, journal: "Journal", bar: Progress, meaning: Meaning
) -> "Built":
    from services.evaluation.golden import building
    from services.evaluation.golden.building.author import Author
    from services.evaluation.golden.building.build import build
    from services.evaluation.golden.building.duplicates import Duplicates
    from services.evaluation.judge.budget import Budget
    from services.evaluation.judge.openai_judge import OpenAIJudge
    from services.evaluation.judge.prompts import Prompts

    prompts = Prompts.read(files(building).joinpath("prompts.yaml").read_bytes())
    budget = Budget(server.max_calls or None)
    writer = OpenAIJudge(
        server.url, server.model, prompts, api_key=server.key, budget=budget, concurrency=plan.concurrency
    )
    task = bar.add_task("writing", total=None)
    try:
        async with embedder_of(**vars(meaning)) as embedder:
            return await build(
                chunks,
                lambda corpus: Author(writer, writer, corpus),
                plan,
                journal,
                f"{server.model}, prompts {prompts.set_version}",
                lambda done, total: bar.update(task, completed=done, total=total),
                Duplicates(embedder),
            )
    finally:
        await writer.close()


def _about(name: str, licence: str, model: str, chunks: "list[Chunk]") -> "About":
    from services.evaluation.golden.sets import About

    languages = sorted({one.language for one in chunks})
    try:
        return About(name=name, version=1, licence=licence, languages=languages, made_by=model)
    except ValidationError as error:
        fail(f"{error.errors()[0]['loc'][0]}: {error.errors()[0]['msg']}")


def _from_folder(folder: Path, language: str) -> "list[Chunk]":
    from services.evaluation.golden.building.chunk import from_folder

    try:
        return from_folder(folder, language)
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{folder}: {error}")


def _from_gateway(collections: list[str] | None) -> "list[Chunk]":
    from services.evaluation.golden.building.chunk import from_gateway

    with connect() as client:
        documents = [
            one
            for one in client.documents()
            if one["status"] == "ready" and (not collections or one["collection"] in collections)
        ]
        return [chunk for one in documents for chunk in from_gateway(one, list(_passages(client, one["document_id"])))]


def _passages(client: Client, document_id: str) -> Iterator[dict[str, Any]]:
    after: str | None = ""
    while after is not None:
        page = client.call("GET", f"/documents/{quote(document_id, safe='')}/chunks", params={"after": after})
        yield from page["data"]
        after = page["after"] if page["has_more"] else None
