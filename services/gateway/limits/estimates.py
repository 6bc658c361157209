"""How many tokens a request will cost, guessed before a model has counted them."""

import math
from collections.abc import Mapping
from typing import Any, cast

# The length of a text is taken between its characters and its bytes of UTF-8: so Latin, Cyrillic and Chinese letters
# and code are within a factor of two of what tokenizers make of them. That is enough: in the end it is known.
_LENGTH_A_TOKEN = 3.5
# What a chat template puts around a conversation. Around each message it puts about as much as the names of its fields.
_TEMPLATE_TOKENS = 3
# A picture or a sound is charged by what models make of it and not by its bytes, which are not text.
_MEDIA_TOKENS: Mapping[str, int] = {
    "image_url": 1000,
    "input_audio": 1500,
    "audio_url": 1500,
    "file_data": 3000,
    "file_url": 3000,
    "video_url": 4000,
}
# What a model reads of a request; everything else are instructions to the server.
_READ = (
    "messages", "prompt", "suffix", "input", "instructions", "tools", "functions", "response_format", "text",
    "query", "documents",
)  # fmt: skip


def prompt_tokens(asked: Mapping[str, Any]) -> int:
    """Tokens that a model will read for this request: text, tools and schemas, token ids, pictures and sounds."""
    length, tokens = 0.0, 0
    waiting: list[Any] = [asked[name] for name in _READ if asked.get(name)]
    while waiting:  # not recursive: a body may be nested deeper than Python's stack
        value = waiting.pop()
        if isinstance(value, str):
            if value.startswith("data:") and _is_media(value):
                tokens += _MEDIA_TOKENS["image_url"]
            else:
                length += len(value) if value.isascii() else (2 * len(value) + len(value.encode())) / 3
        elif isinstance(value, dict):
            for name, inner in cast(dict[str, Any], value).items():
                if name in _MEDIA_TOKENS and _is_media(inner):
                    tokens += _MEDIA_TOKENS[name]
                else:
                    length += len(name)
                    waiting.append(inner)
        elif isinstance(value, list):
            items = cast(list[Any], value)
            others = items
            if items and isinstance(items[0], int):  # ids of tokens
                others = [one for one in items if not isinstance(one, int)]
                tokens += len(items) - len(others)
            waiting += others
        else:
            tokens += 1
    return tokens + _TEMPLATE_TOKENS + math.ceil(length / _LENGTH_A_TOKEN)


def _is_media(value: Any) -> bool:
    """Not the schema of a parameter that happens to be called like that, nor a text that claims to be a picture."""
    if isinstance(value, dict):
        parts = cast(dict[str, Any], value)
        return ("url" in parts or "data" in parts) and all(map(_is_reference, parts.values()))
    return isinstance(value, str) and _is_reference(value)


def _is_reference(value: Any) -> bool:
    """Whether it may be an address, or bytes in Base64, or something short beside them."""
    if isinstance(value, str):
        return value.isascii() and not any(sign in value for sign in " \n\t")
    return not isinstance(value, dict | list)
