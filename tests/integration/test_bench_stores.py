from loadtests.exact_search import ExactSearch, ranked
from loadtests.search_stores import READER, filled
from loadtests.synthetic_corpus import corpus


async def test_a_store_is_filled_once_and_finds_what_comparing_all_finds(tmp_path):
    chunks = corpus(700)
    exact = ExactSearch(chunks)
    for _ in range(2):
        async with filled(chunks, tmp_path) as store:
            for query in chunks.queries(3):
                hits = await store.search(READER, query)
                places = {hit.chunk.chunk_id: int(hit.chunk.document_id) + hit.chunk.position for hit in hits}
                assert set(exact.best(query.dense, query.sparse, 5)) <= set(places.values())
                assert len(ranked(hits)) == len(hits)
        [folder] = tmp_path.iterdir()
        (folder / "kept").touch()
    assert (folder / "kept").exists()
