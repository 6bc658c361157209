import asyncio
import json

import pytest

from services.orchestrator.documents import DocumentQuery
from services.orchestrator.model import Message, ScriptedModel, Spent, Turn, Usage
from services.orchestrator.query_transform import DocumentSearch, SearchPolicy, Transform
from services.orchestrator.query_writer import QueryWriter
from services.orchestrator.results import Degraded, Passage, Passages
from services.runtime.errors import DependencyFailed, InvalidField

OPEN = "How does the penalty for late delivery work in our contracts?"
SEVERAL = "¿Qué plazo de preaviso hay y cuáles son las penalizaciones?"
TRANSFORMS = [one for one in Transform if one is not Transform.NONE]


def passage(name):
    return Passage("doc", name, f"Title {name}", "", 0, "", "", f"Text {name}")


class Library:
    """Finds what `shelf` holds for a text, letter by letter a passage; two of its own for any other text."""

    def __init__(self, shelf=None):
        self.shelf = shelf or {}
        self.searched = []
        self.failing = {}
        self.hanging = set()
        self.cancelled = []
        self.began = asyncio.Event()
        self.barrier = None

    async def search(self, query, timeout_seconds):
        self.searched.append(query)
        self.began.set()
        try:
            if self.barrier is not None:
                await self.barrier.wait()
            if query.text in self.hanging or "*" in self.hanging:
                await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled.append(query.text)
            raise
        if query.text in self.failing:
            raise self.failing[query.text]
        return Passages(tuple(passage(name) for name in self.shelf.get(query.text, "yz")[: query.top_k]))

    async def collections(self, timeout_seconds):
        return []

    @property
    def texts(self):
        return [query.text for query in self.searched]


class LateModel:
    """Writes only once `event` has happened."""

    def __init__(self, event, text):
        self.event, self.text = event, text

    async def stream(self, messages, tools, sampling):
        await self.event.wait()
        yield Turn(self.text)


def writes(**fields):
    return Turn(json.dumps(fields), usage=Usage(100, 10))


def names(found):
    return [one.chunk_id for one in found.passages]


def search_of(library, model, transform=Transform.NONE, history=(), **policy):
    spent = Spent()
    policy = SearchPolicy(transform, **policy)
    return DocumentSearch(library, QueryWriter(model, spent), policy, history), spent


async def find(transform, query, *replies, library=None, history=(), seconds=5.0, top_k=5, **policy):
    library = library or Library()
    model = ScriptedModel(list(replies))
    search, _ = search_of(library, model, transform, history, **policy)
    found = await search.find(DocumentQuery(query, top_k), seconds)
    return found, library, model


async def test_without_a_transformation_the_query_is_searched_as_it_is():
    found, library, model = await find(Transform.NONE, OPEN)
    assert library.searched == [DocumentQuery(OPEN)]
    assert model.requests == []
    assert (found.queries, found.transform, found.degraded) == ((), "", ())


@pytest.mark.parametrize(
    ("transform", "reply", "others"),
    [
        (Transform.HYDE, writes(hypothetical_passage="The supplier pays 2 %."), ["The supplier pays 2 %."]),
        (Transform.MULTI_QUERY, writes(paraphrases=["a fine", "a surcharge"]), ["a fine", "a surcharge"]),
        (Transform.DECOMPOSE, writes(sub_questions=["How much?", "When?"]), ["How much?", "When?"]),
        (Transform.STEP_BACK, writes(broader_question="What are the rules?"), ["What are the rules?"]),
        (Transform.AUTO, writes(transform="multi_query", queries=["a fine", "dues"]), ["a fine", "dues"]),
    ],
)
async def test_the_query_is_searched_with_what_the_model_wrote_for_it(transform, reply, others):
    library = Library({OPEN: "ab"} | {text: f"b{index}" for index, text in enumerate(others)})
    found, _, model = await find(transform, OPEN, reply, library=library)
    assert library.texts == [OPEN, *others]
    assert found.queries == (OPEN, *others)
    assert found.transform == ("multi_query" if transform is Transform.AUTO else transform.value)
    assert names(found)[0] == "b"  # both found it
    assert len(model.requests) == 1
    assert found.degraded == ()


async def test_a_hypothetical_passage_is_searched_by_its_meaning_and_the_question_by_its_words_too():
    _, library, _ = await find(Transform.HYDE, OPEN, writes(hypothetical_passage="A fine is due."))
    assert [query.by_meaning for query in library.searched] == [False, True]


async def test_all_searches_are_under_way_at_the_same_time():
    library = Library()
    library.barrier = asyncio.Barrier(5)  # each waits for the four others: one after the other, none would end
    reply = writes(sub_questions=["A?", "B?", "C?", "D?"])
    found, _, _ = await find(Transform.DECOMPOSE, OPEN, reply, library=library, search_seconds=2)
    assert len(found.queries) == 5
    assert found.degraded == ()


async def test_the_query_itself_is_searched_while_the_model_writes():
    library = Library()
    model = LateModel(library.began, '{"paraphrases": ["a fine"]}')
    search, _ = search_of(library, model, Transform.MULTI_QUERY, model_seconds=2)
    found = await search.find(DocumentQuery(OPEN), 5)
    assert found.queries == (OPEN, "a fine")


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("query", ["¿Qué dice CT-2025-0091 de la penalización y quién lo firmó?", "error ERR-4032"])
async def test_a_query_that_holds_an_identifier_is_never_transformed(transform, query):
    found, library, model = await find(transform, query)
    assert library.texts == [query]
    assert model.requests == []
    assert found.transform == ""


@pytest.mark.parametrize("query", ["holiday carry over", "penalización por retraso", '"fuerza mayor"'])
async def test_auto_leaves_keywords_alone_without_asking_the_model(query):
    _, library, model = await find(Transform.AUTO, query)
    assert (library.texts, model.requests) == ([query], [])


@pytest.mark.parametrize("query", [SEVERAL, "What do Iberdrola and Endesa charge?"])
async def test_auto_takes_apart_what_asks_several_things_in_one_model_turn(query):
    found, _, model = await find(Transform.AUTO, query, writes(sub_questions=["One?", "Two?"]))
    assert (found.transform, found.queries) == ("decompose", (query, "One?", "Two?"))
    assert len(model.requests) == 1


async def test_auto_may_leave_a_query_as_it_is():
    found, library, _ = await find(Transform.AUTO, OPEN, writes(transform="none", queries=["ignored"]))
    assert library.texts == [OPEN]
    assert (found.queries, found.transform, found.degraded) == ((), "", ())


async def test_auto_may_go_step_by_step():
    replies = [writes(transform="multi_step", queries=[]), writes(sufficient=False, next_query="notice")]
    found, library, _ = await find(Transform.AUTO, OPEN, *replies, writes(sufficient=True, next_query=""))
    assert library.texts == [OPEN, "notice"]
    assert found.transform == "multi_step"


async def test_what_asks_one_thing_is_not_taken_apart():
    found, library, _ = await find(Transform.DECOMPOSE, OPEN, writes(sub_questions=[]))
    assert library.texts == [OPEN]
    assert (found.transform, found.degraded) == ("", ())


@pytest.mark.parametrize(
    ("transform", "reply", "count"),
    [
        (Transform.MULTI_QUERY, writes(paraphrases=[f"way {i}" for i in range(20)]), 1 + 3),
        (Transform.DECOMPOSE, writes(sub_questions=[f"part {i}?" for i in range(20)]), 1 + 4),
        (Transform.AUTO, writes(transform="decompose", queries=[f"part {i}?" for i in range(20)]), 1 + 4),
        (Transform.AUTO, writes(transform="step_back", queries=["one?", "two?"]), 1 + 1),
    ],
)
async def test_no_more_is_searched_than_the_ceiling_allows(transform, reply, count):
    _, library, _ = await find(transform, OPEN, reply)
    assert len(library.searched) == count


async def test_what_says_the_same_is_searched_once():
    reply = writes(paraphrases=[OPEN.upper(), "a  fine", "A fine!", "…"])
    assert (await find(Transform.MULTI_QUERY, OPEN, reply))[1].texts == [OPEN, "a fine"]


@pytest.mark.parametrize(
    ("transform", "field", "longest"),
    [(Transform.HYDE, "hypothetical_passage", 1200), (Transform.STEP_BACK, "broader_question", 400)],
)
async def test_an_endless_text_is_cut(transform, field, longest):
    _, library, _ = await find(transform, OPEN, writes(**{field: "word " * 5000}))
    assert len(library.texts[1]) <= longest


async def test_as_many_passages_come_back_as_were_asked_for():
    library = Library({OPEN: "abcdefgh", "a fine": "ijklmnop"})
    found, _, _ = await find(Transform.MULTI_QUERY, OPEN, writes(paraphrases=["a fine"]), library=library, top_k=3)
    assert names(found) == ["a", "i", "b"]


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (DependencyFailed("The model does not answer.", dependency="model"), "The model does not answer"),
        (Turn("I would rather not."), "the model's answer could not be used"),
        (Turn('{"passage": '), "the model's answer could not be used"),
    ],
)
async def test_a_model_that_fails_costs_the_transformation_and_not_the_search(transform, reply, says):
    found, library, _ = await find(transform, OPEN, reply)
    assert library.texts == [OPEN]
    assert names(found) == ["y", "z"]
    assert (found.queries, found.transform) == ((), "")
    assert found.degraded == (Degraded("query_transform", says),)


@pytest.mark.parametrize("transform", TRANSFORMS)
async def test_a_model_that_is_slow_has_only_its_share_of_the_time(transform):
    library, model = Library(), LateModel(asyncio.Event(), "")
    search, _ = search_of(library, model, transform)
    found = await asyncio.wait_for(search.find(DocumentQuery(OPEN), 0.4), 2)
    assert names(found) == ["y", "z"]
    [note] = found.degraded
    assert note.service == "query_transform"
    assert "did not answer within" in note.reason


async def test_a_part_that_fails_takes_only_its_own_passages_along():
    library = Library({OPEN: "a", "B?": "b"})
    library.failing["A?"] = DependencyFailed("The store does not answer.", dependency="store")
    found, _, _ = await find(Transform.DECOMPOSE, OPEN, writes(sub_questions=["A?", "B?"]), library=library)
    assert names(found) == ["a", "b"]
    assert found.degraded == (Degraded("retrieval", "The store does not answer"),)


async def test_a_part_that_hangs_is_left_behind():
    library = Library({OPEN: "a", "B?": "b"})
    library.hanging.add("A?")
    reply = writes(sub_questions=["A?", "B?"])
    found, _, _ = await find(Transform.DECOMPOSE, OPEN, reply, library=library, search_seconds=0.1)
    assert names(found) == ["a", "b"]
    assert [one.service for one in found.degraded] == ["retrieval"]
    assert library.cancelled == ["A?"]


@pytest.mark.parametrize("error", [InvalidField("`query` is wrong.", field="query"), DependencyFailed("Gone.")])
async def test_when_no_search_works_the_querys_own_error_is_told(error):
    library = Library()
    library.failing = {OPEN: error, "A?": DependencyFailed("Another.")}
    with pytest.raises(type(error)) as caught:
        await find(Transform.DECOMPOSE, OPEN, writes(sub_questions=["A?"]), library=library)
    assert caught.value is error


async def test_cancelling_ends_every_search():
    library = Library()
    library.hanging.add("*")
    search, _ = search_of(library, ScriptedModel([writes(sub_questions=["A?", "B?"])]), Transform.DECOMPOSE)
    running = asyncio.create_task(search.find(DocumentQuery(OPEN), 30))
    while len(library.searched) < 3:
        await asyncio.sleep(0.005)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert sorted(library.cancelled) == sorted([OPEN, "A?", "B?"])


async def test_cancelling_while_the_model_writes_ends_the_search_of_the_query():
    library = Library()
    library.hanging.add("*")
    search, _ = search_of(library, LateModel(asyncio.Event(), ""), Transform.HYDE)
    running = asyncio.create_task(search.find(DocumentQuery(OPEN), 30))
    await asyncio.wait_for(library.began.wait(), 2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert library.cancelled == [OPEN]


async def test_steps_follow_what_was_found_until_it_suffices():
    replies = [writes(sufficient=False, next_query="notice"), writes(sufficient=True, next_query="more")]
    found, library, model = await find(
        Transform.MULTI_STEP, OPEN, *replies, library=Library({OPEN: "a", "notice": "b"})
    )
    assert library.texts == [OPEN, "notice"]
    assert (found.queries, found.transform) == ((OPEN, "notice"), "multi_step")
    told = json.loads(model.requests[1][0][-1].text)
    assert told["queries"] == [OPEN, "notice"]
    assert [one["text"] for one in told["passages"]] == ["Text a", "Text b"]


async def test_at_most_three_steps_are_taken():
    replies = [writes(sufficient=False, next_query=f"step {i}") for i in range(9)]
    found, library, model = await find(Transform.MULTI_STEP, OPEN, *replies)
    assert len(library.searched) == 3
    assert len(model.requests) == 2
    assert found.degraded == ()


@pytest.mark.parametrize("again", [OPEN, OPEN.upper(), "", "?"])
async def test_a_step_that_was_taken_already_is_the_last(again):
    found, library, model = await find(Transform.MULTI_STEP, OPEN, writes(sufficient=False, next_query=again))
    assert library.texts == [OPEN]
    assert len(model.requests) == 1
    assert found.degraded == ()


async def test_a_model_that_fails_at_the_second_step_leaves_what_was_found():
    replies = [writes(sufficient=False, next_query="notice"), Turn("?")]
    found, library, _ = await find(Transform.MULTI_STEP, OPEN, *replies)
    assert library.texts == list(found.queries) == [OPEN, "notice"]
    assert [one.service for one in found.degraded] == ["query_transform"]


SPANISH = [Message("user", "¿Qué contratos tienen penalización por retraso?"), Message("assistant", "Tres.")]
ENGLISH = [Message("system", "Be brief."), Message("user", "What was the limit in 2023?"), Message("assistant", "5.")]


@pytest.mark.parametrize(
    ("history", "query", "rewritten"),
    [
        (SPANISH, "¿y cuáles penalizan más?", "¿Qué contratos con penalización por retraso penalizan más?"),
        (ENGLISH, "and in 2024?", "What was the limit in 2024?"),
    ],
)
async def test_a_follow_up_is_completed_before_it_is_searched(history, query, rewritten):
    reply = writes(standalone_query=rewritten)
    found, library, model = await find(Transform.NONE, query, reply, history=history)
    assert library.texts == [rewritten]
    assert (found.queries, found.transform) == ((rewritten,), "")
    assert [one.role for one in model.requests[0][0]] == ["system", "user", "assistant", "user"]


async def test_a_completed_follow_up_is_then_transformed():
    replies = [writes(standalone_query=OPEN), writes(paraphrases=["a fine"])]
    found, library, _ = await find(Transform.MULTI_QUERY, "and that?", *replies, history=ENGLISH)
    assert library.texts == [OPEN, "a fine"]
    assert found.queries == (OPEN, "a fine")


@pytest.mark.parametrize(
    ("query", "history", "rewrite"),
    [
        ("and in 2024?", [], True),
        ("and in 2024?", ENGLISH, False),
        ("What does the holiday policy say about carrying days over?", ENGLISH, True),
        ("¿Cuál es el plazo de preaviso para rescindir?", SPANISH, True),
    ],
)
async def test_what_needs_no_completion_costs_no_model_turn(query, history, rewrite):
    _, library, model = await find(Transform.NONE, query, history=history, rewrite=rewrite)
    assert (library.texts, model.requests) == ([query], [])


@pytest.mark.parametrize(
    "reply",
    [
        DependencyFailed("The model does not answer.", dependency="model"),
        Turn("nonsense"),
        writes(standalone_query="What was the limit?"),  # lost the year
    ],
)
async def test_a_follow_up_that_cannot_be_completed_is_searched_as_it_is(reply):
    found, library, _ = await find(Transform.NONE, "and in 2024?", reply, history=ENGLISH)
    assert library.texts == ["and in 2024?"]
    assert [one.service for one in found.degraded] == ["query_transform"]


async def test_a_code_in_a_follow_up_must_survive():
    reply = writes(standalone_query="What is the penalty of contract CT-2025-0092?")
    found, library, _ = await find(Transform.NONE, "and in CT-2025-0091?", reply, history=ENGLISH)
    assert library.texts == ["and in CT-2025-0091?"]
    assert len(found.degraded) == 1


async def test_long_conversations_are_not_sent_whole():
    history = [Message("user", "x" * 5000) for _ in range(50)]
    _, _, model = await find(Transform.NONE, "and now?", writes(standalone_query="now"), history=history)
    assert sum(len(message.text) for message in model.requests[0][0][1:]) < 4000


async def test_all_model_turns_are_counted():
    library, model = Library(), ScriptedModel([writes(standalone_query=OPEN), writes(hypothetical_passage="A fine.")])
    search, spent = search_of(library, model, Transform.HYDE, ENGLISH)
    await search.find(DocumentQuery("and that?"), 5)
    assert (spent.turns, spent.usage) == (2, Usage(200, 20))


async def test_the_chosen_collections_of_all_searches_are_told():
    class Routed(Library):
        async def search(self, query, timeout_seconds):
            found = await super().search(query, timeout_seconds)
            chosen = {OPEN: ("contracts",), "A?": ("contracts", "policies")}.get(query.text, ())
            return Passages(found.passages if chosen else (), collections=chosen, off_topic=not chosen)

    reply = writes(sub_questions=["A?", "B?"])
    found, _, _ = await find(Transform.DECOMPOSE, OPEN, reply, library=Routed())
    assert (found.collections, found.off_topic) == (("contracts", "policies"), False)
    found, _, _ = await find(Transform.NONE, "Who won?", library=Routed())
    assert found.off_topic is True
