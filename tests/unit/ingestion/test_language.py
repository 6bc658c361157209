import subprocess
import sys

import pytest

from services.ingestion.language import detect, known

SPANISH = "El proveedor pagará una penalización del dos por ciento del precio por cada mes de retraso en la entrega."
ENGLISH = "The provider shall pay a penalty of two per cent of the price for each month of delay in delivery."


@pytest.mark.parametrize(("text", "expected"), [(SPANISH, "es"), (ENGLISH, "en"), (SPANISH * 500, "es")])
def test_spanish_and_english_are_told_apart(text, expected):
    assert detect(text) == expected


def test_the_answer_is_the_same_each_time():
    assert len({detect(f"{SPANISH} {ENGLISH}") for _ in range(20)}) == 1


@pytest.mark.parametrize(
    "text", ["", "CT-2025-0001", "12.500,00 € 2025", "https://example.com/a/very/long/address/of/a/page"]
)
def test_too_little_text_has_no_language(text):
    assert detect(text) == ""


def test_what_a_page_declares_must_be_a_language():
    assert (known("es"), known("xx"), known("")) == ("es", "", "")


def test_the_first_documents_of_a_process_are_told_as_well_as_all_others():
    """In a process of its own, where nothing is loaded yet, by threads that all ask at once."""
    program = f"""
import threading
from concurrent.futures import ThreadPoolExecutor
from services.ingestion.language import detect
texts, together = [{SPANISH!r}, {ENGLISH!r}] * 4, threading.Barrier(8)
def told(text):
    together.wait()
    return detect(text)
with ThreadPoolExecutor(8) as threads:
    print(*threads.map(told, texts))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["es", "en"] * 4
