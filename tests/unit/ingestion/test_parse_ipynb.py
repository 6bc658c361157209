import json
from pathlib import Path

import pytest

from services.ingestion.parsed import Unreadable
from services.ingestion.parsers.parse import parse
from services.ingestion.parsers.parse_ipynb import parse_ipynb

OFFICE = Path(__file__).parents[2] / "data/documents/office"


def test_a_real_notebook_is_read():
    parsed = parse((OFFICE / "test_notebook.ipynb").read_bytes(), "a.ipynb")
    assert parsed.title == "Test Notebook Title"
    assert [(block.kind, block.text) for block in parsed.blocks[:3]] == [
        ("heading", "Test Notebook"),
        ("code", 'print("markitdown")'),
        ("code", "Output:\nmarkitdown"),
    ]
    assert parsed.blocks[4].section == ("Test Notebook", "Code Cell Below")


def test_outputs_are_bounded_and_pictures_are_left_out():
    outputs = [
        {"output_type": "display_data", "data": {"image/png": "iVBOR" * 1000}},
        {"output_type": "stream", "text": ["x" * 10_000]},
        {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["\x1b[0m"]},
        {"output_type": "execute_result", "data": {"text/plain": ["42"], "text/html": "<b>42</b>"}},
        "nonsense",
    ]
    parsed = parse_ipynb(
        json.dumps({"nbformat": 4, "cells": [{"cell_type": "code", "source": "f()", "outputs": outputs}]})
    )
    assert [block.text for block in parsed.blocks] == [
        "f()",
        "Output:\n" + "x" * 4_000,
        "Output:\nValueError: no",
        "Output:\n42",
    ]
    assert parsed.warnings == ("1 long outputs of the notebook were shortened.",)


@pytest.mark.parametrize(
    "text", ["{}", "[]", "{broken", '{"cells": 1}', '{"cells": [1, {"cell_type": 2, "source": {}}]}']
)
def test_odd_notebooks_end_in_a_reason(text):
    with pytest.raises(Unreadable):
        parse(text.encode(), "a.ipynb")
