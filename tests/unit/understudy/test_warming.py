"""What the understudy does before its first answer."""

from services.understudy.plan import read_parts
from services.understudy.warming import warm_up


async def test_warming_up_goes_through_whole_questions_in_both_languages():
    read_parts.cache_clear()
    await warm_up("any-model")
    assert read_parts.cache_info().currsize == 4
