import json
from collections import Counter

import pytest

from services.orchestrator.calling.profiles import PROFILES
from services.orchestrator.trials.valid_calls import FAMILIES, FOLDER, is_right, measured, read, replayed

REPLIES = [(family, one) for family in FAMILIES for one in read(family)]


@pytest.mark.parametrize("piece_chars", [1, 10_000])
async def test_every_reply_of_every_family_ends_in_the_right_calls_after_at_most_one_repair(piece_chars):
    for family, one in REPLIES:
        came = await replayed(one, PROFILES[family], piece_chars=piece_chars)
        assert is_right(one, came), (family, one.kind, one.id)
        assert came.repairs == len(one.replies) - 1, (family, one.kind, one.id)


async def test_the_rate_after_one_repair_is_one_and_without_us_it_is_not():
    for family, count, native, once, repaired in await measured():
        assert count >= 25, family
        assert native < once < repaired == 1, family


def test_each_family_has_native_and_written_calls_several_at_once_broken_ones_and_answers():
    for family in FAMILIES:
        kinds = Counter(one.kind for one in read(family))
        assert {
            "native",
            "answer in prose",
            "answer that shows a call",
            "cut off",
            "string without end",
        } <= kinds.keys()
        assert sum(len(one.calls) > 1 for one in read(family)) >= 4


def test_the_replies_are_what_their_folder_says():
    notice = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert "Apache-2.0" in notice
    for family in FAMILIES:
        lines = [json.loads(line) for line in (FOLDER / f"{family}.jsonl").read_text(encoding="utf-8").splitlines()]
        assert len({(line["id"], line["kind"]) for line in lines}) == len(lines)
