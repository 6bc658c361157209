"""Are there documents, can they be searched, and are they of the embedding model that is served."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import httpx2

from services.cli.client import Client
from services.cli.doctor.findings import Finding, skipped, warning, well, wrong
from services.cli.json_shapes import entries, first, mapping

_SECONDS = 10
_OLDEST_SERVER = (1, 19)
_PLACES = "sabueso-chunks-"


def embedding(client: Client, known: Sequence[Mapping[str, Any]]) -> tuple[list[Finding], str, int]:
    """Findings, the served model's name and the length of its vectors. Raises Failed."""
    name = next((str(one["id"]) for one in known if one.get("owned_by") == "embedding"), "")
    if not name:
        return [wrong("embedding", "the gateway lists no embedding model", fix="See the service `embedding`.")], "", 0
    answer = client.call("POST", "/embeddings", json={"model": name, "input": "hotel", "input_type": "query"})
    vector: list[float] = first(answer.get("data")).get("embedding") or []
    return [well("embedding", f"`{name}` gives vectors of {len(vector)} values")], name, len(vector)


def collections(client: Client, model: str) -> Iterator[Finding]:
    """`model`: that is served; empty when nobody knows. Raises Failed."""
    found = entries(client.call("GET", "/collections").get("data"))
    documents = sum(int(one.get("document_count", 0)) for one in found)
    if not documents:
        yield warning(
            "documents",
            "there is no document that this key may read" if found else "there is no collection",
            why="Only databases and the web can be asked.",
            fix="sabueso ingest FOLDER --collection NAME --create. Labels of the key may hide what there is.",
        )
    for one in found:
        yield from _collection(one, model)
    if documents:
        yield well("documents", f"{documents} in {len(found)} collections")
        yield from _search(client)
        yield from _failed(client)


def _collection(one: Mapping[str, Any], model: str) -> Iterator[Finding]:
    name, theirs, migration = one.get("name"), one.get("embedding_model"), mapping(one.get("migration"))
    if migration.get("state") == "running":
        done = f"{migration.get('done_count')} of {migration.get('total_count')}"
        yield well("documents", f"`{name}` is being migrated to another embedding model: {done}")
    elif migration.get("state") == "failed":
        yield warning("documents", f"the migration of `{name}` failed", fix=f"sabueso collections migrate {name}")
    elif model and theirs and theirs != model:
        yield wrong(
            "embedding",
            f"`{name}` has vectors of `{theirs}`; served is `{model}`",
            why="Vectors of two models do not compare: it cannot be searched unless both are served.",
            fix=f"Serve both in SABUESO_EMBEDDING_ADDRESS, the new one first; sabueso collections migrate {name}",
        )
    if one.get("differs"):
        yield warning("documents", f"{one['differs']}", fix=f"sabueso collections migrate {name}")


def _search(client: Client) -> Iterator[Finding]:
    found = client.call("POST", "/search", json={"query": "hotel", "top_k": 1})
    for lost in found.get("degraded") or ():
        yield warning("search", f"goes without {lost}", fix="See the findings on the services.")
    if found.get("results"):
        yield well("search", "finds passages")
    else:
        yield warning(
            "search",
            "finds nothing, though there are documents",
            why="The registry names documents whose passages are gone, or all are still being taken in.",
            fix="sabueso documents; after a restore: sabueso restore BACKUP --check.",
        )


def _failed(client: Client) -> Iterator[Finding]:
    # Those that failed or wait come first.
    page = entries(client.call("GET", "/documents", params={"limit": 100, "after": ""}).get("data"))
    failed = [one for one in page if one.get("status") == "failed"]
    if failed:
        one = failed[0]
        yield warning(
            "documents",
            f"{len(failed)}{'' if len(failed) < len(page) else ' or more'} could not be taken in",
            why=f"The first: {one.get('title') or one.get('document_id')}: {one.get('reason')}",
            fix="sabueso documents lists them with their reasons.",
        )


def vector_store(store: str, api_key: str, dimensions: int) -> Iterator[Finding]:
    """Looks at a Qdrant server itself. `store` as in SABUESO_VECTOR_STORE; `dimensions` 0: nobody knows."""
    kind, _, url = store.partition(":")
    if kind != "qdrant":
        yield skipped("qdrant", "is not asked directly", fix="--vector-store qdrant:https://…, where it can be reached")
        return
    headers = {"api-key": api_key} if api_key else {}
    try:
        with httpx2.Client(base_url=url.rstrip("/"), headers=headers, timeout=_SECONDS, trust_env=False) as http:
            yield from _server(http, dimensions)
    except httpx2.HTTPStatusError as error:
        code = error.response.status_code
        fix = "Is SABUESO_QDRANT_API_KEY right?" if code in (401, 403) else "Look at Qdrant's log."
        yield wrong("qdrant", f"answers {code}", fix=fix)
    except httpx2.HTTPError as error:
        yield wrong(
            "qdrant", f"{url} does not answer", why=str(error), fix="Is it up, and is this its HTTP port (6333)?"
        )


def _server(http: httpx2.Client, dimensions: int) -> Iterator[Finding]:
    version = str(_get(http, "/").get("version", ""))
    numbers = tuple(int(part) for part in version.lstrip("v").split(".")[:2] if part.isdigit())
    if numbers < _OLDEST_SERVER:
        oldest = ".".join(map(str, _OLDEST_SERVER))
        yield wrong(
            "qdrant", f"is {version or 'of unknown version'}", why=f"It must be {oldest} or newer.", fix="Upgrade."
        )
    listed = entries(mapping(_get(http, "/collections").get("result")).get("collections"))
    names = [str(one["name"]) for one in listed if str(one["name"]).startswith(_PLACES)]
    total, lengths = 0, set[int]()
    for name in names:
        found = mapping(_get(http, f"/collections/{quote(name)}").get("result"))
        total += int(found.get("points_count") or 0)
        params = mapping(mapping(found.get("config")).get("params"))
        lengths.add(int(mapping(mapping(params.get("vectors")).get("dense")).get("size") or 0))
        if found.get("status") not in ("green", "yellow", "grey"):
            yield wrong("qdrant", f"`{name}` is {found.get('status')}", fix="Look at Qdrant's log and its disk.")
    if not total:
        yield warning("qdrant", "holds no passage", fix="Ingest documents, or restore a backup.")
    elif dimensions and dimensions not in lengths:
        yield wrong(
            "qdrant",
            f"no place has vectors of {dimensions} values, as the embedding model gives; there are {sorted(lengths)}",
            fix="Serve the old model too and migrate the collections.",
        )
    else:
        yield well("qdrant", f"{version}: {total} passages")


def _get(http: httpx2.Client, path: str) -> Mapping[str, Any]:
    answer = http.get(path)
    answer.raise_for_status()
    return mapping(answer.json())
