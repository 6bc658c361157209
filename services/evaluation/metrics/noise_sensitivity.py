"""Noise sensitivity: how much faithfulness drops when irrelevant passages are added to the same question."""

import random
from collections.abc import Collection, Sequence
from typing import Any, cast

from services.evaluation.answered import Answered, Passage
from services.evaluation.judge.judge import Judge
from services.evaluation.metrics import faithfulness
from services.evaluation.metrics.metric import Asking, Found, NotScored, score_of
from services.evaluation.score import Score

NAME = "noise_sensitivity"
# More means fragile.
ALARM_ABOVE = 0.15


async def score(clean: Answered, noisy: Answered, judge: Judge) -> Score:
    """Faithfulness of `clean` − faithfulness of `noisy`, each judged against what it was shown; within [-1, 1].

    A claim that was taken over from the noise is supported by what was shown, and does not lower faithfulness: the
    share of such claims is `details.from_noise`. Noise is what `noisy` was shown and `clean` was not.
    """

    async def measure(asking: Asking) -> Found:
        before = await _measured("without noise", clean, asking)
        after = await _measured("with noise", noisy, asking)
        details = {
            "clean": before.value,
            "noisy": after.value,
            "from_noise": _from_noise(clean, noisy, after),
            "claims": after.details["claims"],
        }
        return Found(before.value - after.value, before.claim_count + after.claim_count, details)

    return await score_of(NAME, judge, clean.language, measure)


def with_noise(
    shown: Sequence[Passage], pool: Sequence[Passage], count: int, seed: int, avoid: Collection[str] = ()
) -> tuple[Passage, ...]:
    """`shown` in its order, with `count` passages of `pool` at places drawn by `seed`: controlled noise.

    None is from a source in `avoid` (those that answer the question) or from a source shown. Raises ValueError where
    too few are left.
    """
    near = {*avoid, *(passage.source for passage in shown)}
    texts = {passage.text for passage in shown}
    far = [passage for passage in pool if passage.source not in near and passage.text not in texts]
    if len(far) < count:
        raise ValueError(f"only {len(far)} of {len(pool)} passages are from other sources, and {count} are wanted")
    draw = random.Random(seed)
    mixed = list(shown)
    for passage in draw.sample(far, count):
        mixed.insert(draw.randint(0, len(mixed)), passage)
    return tuple(mixed)


async def _measured(when: str, answered: Answered, asking: Asking) -> Found:
    try:
        return await faithfulness.measure(answered, None, asking, None)
    except NotScored as error:
        raise NotScored(error.status, f"{when}: {error.reason}") from None


def _from_noise(clean: Answered, noisy: Answered, found: Found) -> float:
    """Share of the noisy answer's claims that nothing but noise supports."""
    known = {passage.text for passage in clean.passages}
    noise = {number for number, passage in enumerate(noisy.passages, start=1) if passage.text not in known}
    claims = cast(list[dict[str, Any]], found.details["claims"])
    taken = [one for one in claims if one["supported"] and one.get("passages") and noise.issuperset(one["passages"])]
    return len(taken) / len(claims)
