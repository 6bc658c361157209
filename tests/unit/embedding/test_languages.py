"""Languages by the model's name."""

import pytest

from services.embedding.languages import known_languages


@pytest.mark.parametrize(
    ("model", "languages"),
    [
        ("all-MiniLM-L6-v2@0123", ("en",)),
        ("sentence-transformers/all-MiniLM-L12-v2", ("en",)),
        ("bge-small-en-v1.5", ("en",)),
        ("BAAI/bge-large-zh-v1.5", ("zh",)),
        ("e5-small-v2", ("en",)),
        ("jina-embeddings-v2-base-es", ("es",)),
        ("multilingual-e5-small@0123", ()),
        ("bge-m3", ()),
        ("paraphrase-multilingual-MiniLM-L12-v2", ()),
        ("hash-64", ()),
        ("remote", ()),
    ],
)
def test_a_models_languages_are_known_by_its_name(model, languages):
    assert known_languages(model) == languages
