import json

from services.orchestrator.model import Turn
from services.orchestrator.trials.multihop import hotpotqa, measured, musique
from tests.unit.orchestrator.planning.plan_world import Cast, planned, searching

QUESTION = "Where was the director of Nightfall born?"


def sample(folder):
    """One question that takes two passages in a row, in HotpotQA's and MuSiQue's shape."""
    facts = [["Nightfall", 0], ["Ann Lee", 0]]
    corpus = {"Nightfall": ["A film directed by Ann Lee."], "Ann Lee": ["Born in Oslo."], "Menu": ["Soup."]}
    (folder / "hotpotqa_train.json").write_text(json.dumps([{"question": QUESTION, "supporting_facts": facts}]))
    (folder / "hotpotqa_train_corpus.json").write_text(json.dumps(corpus))
    texts = {title: lines[0] for title, lines in corpus.items()}
    paragraphs = [
        {"title": title, "paragraph_text": text, "is_supporting": title != "Menu"} for title, text in texts.items()
    ]
    (folder / "musique_train.json").write_text(json.dumps([{"question": QUESTION, "paragraphs": paragraphs}]))
    whole = [{"title": title, "text": text} for title, text in texts.items()]
    (folder / "musique_train_corpus.json").write_text(json.dumps(whole))


async def test_what_each_strategy_finds_is_counted(tmp_path):
    sample(tmp_path)
    steps = {
        "Who directed Nightfall?": searching("Ann Lee [1].", "film Nightfall"),
        "Where was that director born?": searching("Oslo [2].", "Ann Lee born", "t"),
    }
    apart = planned(("a", "Who directed Nightfall?", ""), ("b", "Where was that director born?", "", "a"))
    whole = [Turn("Oslo [1]."), *searching("I do not know [1].", "film Nightfall"), Turn("Oslo [2].")]
    cast = Cast(plan=[apart], check=[Turn('{"enough": true}')], answer=whole, **steps)
    questions, shelf = hotpotqa(tmp_path)
    found = await measured(questions, shelf, cast, top_k=1)
    assert {name: (one.share, one.complete) for name, one in found.items()} == {
        "rag": (0.5, 0),
        "react": (0.5, 0),
        "plan": (1.0, 1),
    }
    assert (found["plan"].planned, found["plan"].passages) == (1, 2)
    assert found["plan"].row("hotpotqa", "plan").startswith("| hotpotqa | plan | 1 | 1.00 | 1.00 | 2.00 |")


def test_both_samples_are_read_the_same(tmp_path):
    sample(tmp_path)
    for read in (hotpotqa, musique):
        (question,), shelf = read(tmp_path)
        assert len(question.needs) == 2
        assert {one.document_id for one in shelf.search("Ann Lee film Oslo", 2)} == question.needs
