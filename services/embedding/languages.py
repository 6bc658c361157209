"""Which languages a model was trained for: searches in others are better left to the words."""

# By the start of the model's name, as its card says. Multilingual models are not listed: an empty answer means any.
_ENGLISH = ("all-minilm-", "all-mpnet-", "e5-small", "e5-base", "e5-large", "gte-small", "gte-base", "gte-large")
_CODES = {"en": ("en",), "zh": ("zh",), "de": ("de",), "es": ("es",)}


def known_languages(model: str) -> tuple[str, ...]:
    """ISO 639-1 codes by a model's short name, such as `bge-small-en-v1.5`; empty means any, or not known."""
    name = model.lower().partition("@")[0].rpartition("/")[2]
    if name.startswith(_ENGLISH):
        return ("en",)
    if name.startswith(("bge-", "jina-embeddings-v2-", "snowflake-arctic-embed-")):
        return next((_CODES[part] for part in name.split("-") if part in _CODES), ())
    return ()
