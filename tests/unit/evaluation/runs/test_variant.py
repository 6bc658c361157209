"""Variants: written on a command line, kept in a manifest."""

import pytest

from services.evaluation.runs.variant import Kind, Variant, WrongVariant, check_names


def test_a_variant_is_written_as_a_name_and_settings():
    found = Variant.parse("k3: strategy=rag collections=policies,contracts cache=use max_iterations=2")
    assert found == Variant(
        "k3",
        Kind.AGENT,
        {"strategy": "rag", "collections": ["policies", "contracts"], "cache": "use", "max_iterations": 2},
    )


def test_the_agent_may_answer_by_another_model_with_any_strategy():
    assert Variant.parse("b: strategy=plan model=qwen3-32b") == Variant(
        "b", Kind.AGENT, {"strategy": "plan"}, model="qwen3-32b"
    )


def test_a_name_alone_is_the_agent_as_it_is():
    assert Variant.parse("agent") == Variant("agent")


def test_settings_of_a_search_are_those_of_its_endpoint():
    found = Variant.parse("dense: kind=search mode=dense top_k=3 rerank=false")
    assert found.kind is Kind.SEARCH
    assert found.options == {"mode": "dense", "top_k": 3, "rerank": False}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: kind=magic", "no kind is called magic"),
        ("a: top_k=3", "takes no top_k"),
        ("a: strategy", "key=value"),
        ("two words: strategy=rag", "no blanks"),
        (": strategy=rag", "no blanks"),
        ("a: noise=3", "noise"),
        ("a: kind=constant model=m", "asks no model"),
        ("a: kind=search model=m", "asks no model"),
        ("a: kind=given noise=-1", "noise"),
        ("a: strategy=[", "cannot be read"),
    ],
)
def test_what_means_nothing_is_refused_with_its_reason(text, told):
    with pytest.raises(WrongVariant, match=told):
        Variant.parse(text)


def test_a_manifest_gives_back_the_variant():
    variant = Variant.parse("n: kind=given noise=3 top_k=4 model=m url=http://other:1 key_variable=OTHER_KEY")
    assert Variant.read(variant.written()) == variant


def test_two_variants_of_one_name_are_refused():
    with pytest.raises(WrongVariant, match="two variants are called a"):
        check_names([Variant("a"), Variant("b"), Variant("a")])
    with pytest.raises(WrongVariant, match="no variant"):
        check_names([])
