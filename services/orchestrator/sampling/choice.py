"""Which answers are offered: a fixed share of all ids, the same for every replica and every try."""

import hashlib

_RANGE = 2**64


def is_chosen(answer_id: str, share: float) -> bool:
    """Whether the answer is among the `share` (0 to 1). What is chosen at a share is chosen at every larger one."""
    place = int.from_bytes(hashlib.blake2b(answer_id.encode(), digest_size=8).digest(), "big")
    return place < share * _RANGE
