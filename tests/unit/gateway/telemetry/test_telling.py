"""What is told of a request, and what never is."""

import json
import logging

import pytest
from pydantic import ValidationError

from services.gateway.config import Settings
from services.gateway.guards.presidio import PresidioFinder, finder_of
from services.gateway.guards.recognition import NumberFinder
from services.gateway.metering import Meter
from services.gateway.telemetry import access_log
from services.gateway.telemetry.content import MAX_BYTES, Recorded, input_messages
from services.gateway.telemetry.conventions import VERSIONS
from services.gateway.telemetry.metrics import OTHER, ModelNames
from services.runtime.settings import WrongSetting
from services.runtime.telemetry import headers_of


def test_only_names_that_are_configured_or_have_answered_are_labels():
    names = ModelNames(lambda name: name == "llama")
    assert names.label_of("llama", answered=False) == "llama"
    assert names.label_of("small@1", answered=False) == OTHER
    assert names.label_of("small@1", answered=True) == "small@1"
    assert names.label_of("small@1", answered=False) == "small@1"


def test_a_pool_that_answers_to_any_name_makes_few_labels():
    names = ModelNames(lambda _: False)
    assert len({names.label_of(f"any-{number}", answered=True) for number in range(10_000)}) < 100


def test_an_unknown_version_of_the_conventions_is_refused():
    secret = "x" * 32
    for version in VERSIONS:
        Settings(identity_secret=secret, genai_semconv=version)
    with pytest.raises(ValidationError, match="genai_semconv"):
        Settings(identity_secret=secret, genai_semconv="2.0")


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ("", {}),
        ("Authorization=Basic cGs6c2s=", {"authorization": "Basic cGs6c2s="}),
        ("authorization=Basic%20abc%3D%3D, x-langfuse-ingestion-version=4 ,",
         {"authorization": "Basic abc==", "x-langfuse-ingestion-version": "4"}),
    ],
)  # fmt: skip
def test_headers_for_a_collector_are_read_as_open_telemetry_writes_them(text, headers):
    assert headers_of(text) == headers


def test_wrong_headers_for_a_collector_are_named_without_their_value():
    with pytest.raises(WrongSetting) as caught:
        headers_of("Basic-secret")
    assert caught.value.setting == "SABUESO_OTLP_HEADERS"
    assert "secret" not in str(caught.value)


def test_a_line_of_the_access_log_holds_numbers_and_names(caplog):
    caplog.set_level(logging.INFO, "sabueso.access")
    meter = Meter(model="whatever was asked", dispatched=True)
    meter.usage(3, 4)
    access_log.note({"meter": meter, "model_label": "other", "caller": None}, {"status": 200})
    access_log.note({}, {"status": 204}, quiet=True)
    (record,) = caplog.records
    assert (record.status, record.model, record.input_tokens, record.output_tokens) == (200, "other", 3, 4)
    assert "whatever" not in str(record.__dict__)


def test_content_is_kept_up_to_a_size():
    recorded = Recorded()
    for _ in range(100):
        recorded.add(b'{"choices": [' + b"x" * 10_000)
    assert json.loads(recorded.messages()) == []
    assert len(input_messages({"messages": [{"role": "user", "content": "x" * 10**6}]})) <= MAX_BYTES


@pytest.mark.parametrize(
    "body",
    [
        b'{"choices":[{"message":{"content":"hola"}}]}',
        b'data: {"choices":[{"index":0,"delta":{"content":"ho"}}]}\n\n: c\n\n'
        b'data: {"choices":[{"index":0,"delta":{"content":"la"}}]}\n\ndata: [DONE]\n\n',
        b'{"choices":[{"text":"hola"}]}',
        b'data: {"type":"response.output_text.delta","output_index":0,"delta":"hola"}\n\n',
    ],
)
def test_content_of_each_shape_is_the_answers_text(body):
    recorded = Recorded()
    recorded.add(body)
    assert json.loads(recorded.messages()) == [{"role": "assistant", "parts": [{"type": "text", "content": "hola"}]}]


class Engine:
    """Finds one name, as Presidio's engine would say it."""

    def analyze(self, text, language, score_threshold):
        at = text.find("Juan Pérez")
        found = type("Result", (), {"entity_type": "PERSON", "start": at, "end": at + 10})
        return [found] if at >= 0 and language == "es" else []


def test_presidios_findings_are_added_to_our_own():
    found = PresidioFinder(Engine()).find("Soy Juan Pérez, 600 123 456")
    assert [one.kind for one in found] == ["person", "phone"]


def test_without_presidio_the_setting_says_what_to_install():
    assert isinstance(finder_of("builtin"), NumberFinder)
    try:
        import presidio_analyzer  # noqa: F401
    except ImportError:
        with pytest.raises(WrongSetting, match="group `pii`"):
            finder_of("presidio")
