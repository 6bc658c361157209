"""`sabueso collections` and `sabueso documents`: what they ask of the gateway, and what they say of it."""

import json


def collection(**fields):
    return {"name": "contracts", "description": "", "language": "es", "document_count": 3, **fields}


def migration(state, done, **fields):
    return {"migration": {"state": state, "done_count": done, "total_count": 3, **fields}}


def test_only_what_is_given_is_sent_when_a_collection_is_made(sabueso, gateway):
    gateway.answers = {
        "GET /v1/collections": [(200, {"data": []})],
        "PUT /v1/collections/contracts": [(200, collection())],
    }
    words = "--description Contratos --strategy sentences --overlap-tokens 0 --hnsw-m 32 --quantization scalar"
    done = sabueso("collections", "create", "contracts", *words.split())
    assert done.exit_code == 0, done.output
    assert gateway.asked[-1][1] == {
        "description": "Contratos",
        "chunking": {"strategy": "sentences", "overlap_tokens": 0},
        "index": {"hnsw_m": 32, "quantization": "scalar"},
    }


def test_a_collection_that_is_there_is_not_made_again(sabueso, gateway):
    gateway.answers = {"GET /v1/collections": [(200, {"data": [collection()]})]}
    done = sabueso("collections", "create", "contracts")
    assert done.exit_code == 1
    assert "already" in done.output


def test_collections_are_listed_and_shown(sabueso, gateway):
    gateway.answers = {
        "GET /v1/collections": [(200, {"data": [collection(embedding_model="e5")]})] * 2,
        "GET /v1/collections/contracts": [(200, collection(chunking={"strategy": "code"}))],
    }
    assert "e5" in sabueso("collections").output
    assert json.loads(sabueso("collections", "list", "--json").stdout)["data"][0]["name"] == "contracts"
    assert "code" in sabueso("collections", "show", "contracts").output


def test_a_migration_is_followed_to_its_end(sabueso, gateway):
    gateway.answers = {
        "POST /v1/collections/contracts/migrate": [(200, collection(**migration("running", 0)))],
        "GET /v1/collections/contracts": [
            (200, collection(**migration("running", 1))),
            (200, collection(**migration("done", 3))),
        ],
    }
    done = sabueso("collections", "migrate", "contracts", "--quantization", "binary")
    assert (done.exit_code, done.output.strip()) == (0, "`contracts`: done (3 of 3 documents)")
    assert gateway.asked[0][1] == {"index": {"quantization": "binary"}}


def test_a_migration_that_failed_ends_with_status_1_and_one_can_be_stopped(sabueso, gateway):
    gateway.answers = {
        "POST /v1/collections/contracts/migrate": [(200, {})],
        "GET /v1/collections/contracts": [(200, collection(**migration("failed", 1, reason="No room.")))],
        "DELETE /v1/collections/contracts/migrate": [(200, collection(**migration("cancelled", 1)))],
    }
    failed = sabueso("collections", "migrate", "contracts")
    assert failed.exit_code == 1
    assert "failed: No room." in failed.output
    assert "cancelled" in sabueso("collections", "migrate", "contracts", "--cancel").output


def test_a_collection_is_deleted_only_after_a_yes(sabueso, gateway):
    gateway.answers = {
        "GET /v1/collections/contracts": [(200, collection())] * 2,
        "DELETE /v1/collections/contracts": [(200, {"document_count": 3})],
    }
    assert sabueso("collections", "delete", "contracts").exit_code == 1
    assert [asked for asked, _ in gateway.asked] == ["GET /v1/collections/contracts"]
    assert "3 documents" in sabueso("collections", "delete", "contracts", "--yes").output


def test_documents_of_all_pages_are_listed_by_collection_and_status(sabueso, gateway):
    def page(*states, after=None):
        data = [{"document_id": f"d{n}", "collection": "contracts", "status": status} for n, status in states]
        return 200, {"data": data, "has_more": bool(after), "after": after}

    gateway.answers = {
        "GET /v1/documents?limit=1000&after=": [page((1, "failed"), (2, "ready"), after="d2")],
        "GET /v1/documents?limit=1000&after=d2": [page((3, "ready"))],
    }
    found = json.loads(sabueso("documents", "list", "--status", "ready", "--json").stdout)["data"]
    assert [document["document_id"] for document in found] == ["d2", "d3"]


def test_deleting_goes_on_after_a_refusal_and_says_so(sabueso, gateway):
    refusal = {"error": {"code": "not_found", "message": "There is no document `a`."}}
    gateway.answers = {"DELETE /v1/documents/a": [(404, refusal)], "DELETE /v1/documents/b/c": [(200, {})]}
    done = sabueso("documents", "delete", "a", "b/c", "--yes")
    assert done.exit_code == 1
    assert "There is no document `a`. (404 not_found)" in done.output
    assert "b/c: deleted" in done.output
