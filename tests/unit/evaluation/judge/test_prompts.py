import json
import re

import pytest

from services.evaluation.judge.prompts import DEFAULT_LANGUAGE, REPEAT, Prompts
from services.runtime.yaml_files import WrongYaml

SHIPPED = Prompts.shipped()
TASKS = [task for task in SHIPPED.tasks if task != REPEAT]


@pytest.mark.parametrize("task", SHIPPED.tasks)
def test_every_task_has_a_spanish_and_an_english_prompt(task):
    assert set(SHIPPED.tasks[task]) == {"es", "en"}
    assert SHIPPED.text(task, "es") != SHIPPED.text(task, "en")


@pytest.mark.parametrize("language", ["es", "en"])
@pytest.mark.parametrize("task", TASKS)
def test_the_examples_in_a_prompt_are_json_with_the_keys_that_it_asks_for(task, language):
    text = SHIPPED.text(task, language).replace("\n", " ")
    label, answer, end = {"en": ("Example", "Answer", "Answer with"), "es": ("Ejemplo", "Respuesta", "Responde con")}[
        language
    ]
    asked, answered = re.search(rf"{label}: (\{{.*\}}) {answer}: (\{{.*\}}) {end}", text).groups()
    assert json.loads(asked)
    keys = set(re.findall(r'"(\w+)":', text.rsplit(end, 1)[1]))
    assert set(re.findall(r'"(\w+)":', answered)) == keys
    assert json.loads(answered).keys() <= keys


@pytest.mark.parametrize("task", TASKS)
def test_the_two_languages_ask_for_the_same_keys(task):
    keys = [set(re.findall(r'"(\w+)"(?=:)', SHIPPED.text(task, language))) for language in ("es", "en")]
    assert keys[0] == keys[1]


def test_a_language_without_prompts_gets_the_english_ones():
    assert SHIPPED.text("claims", "ca") == SHIPPED.text("claims", DEFAULT_LANGUAGE)


def test_another_wording_is_another_version():
    one = Prompts.read(b"repeat: {en: again}\nclaims: {en: Take.}")
    other = Prompts.read(b"repeat: {en: again}\nclaims: {en: Take!}")
    assert one.version("claims", "en") != other.version("claims", "en")
    assert one.version("repeat", "en") == other.version("repeat", "en")
    assert one.set_version != other.set_version
    assert one.set_version == Prompts.read(b"claims: {en: Take.}\nrepeat: {en: again}").set_version


def test_an_unknown_task_is_named_with_those_there_are():
    with pytest.raises(ValueError, match="no prompt is called clams; there are aspects, claims"):
        SHIPPED.text("clams", "en")


@pytest.mark.parametrize(
    "content", [b"- 1", b"claims: 3", b"claims: {es: Toma.}\nrepeat: {en: again}", b"claims: {en: Take.}", b"{"]
)
def test_prompts_that_cannot_be_used_are_refused(content):
    with pytest.raises(WrongYaml):
        Prompts.read(content)
