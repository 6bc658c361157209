"""The journal of a build: what was done stays done, whenever it was stopped."""

import pytest

from services.evaluation.golden.building.candidate import Candidate, Rejection
from services.evaluation.golden.building.journal import BrokenJournal, Journal
from services.evaluation.golden.item import Stratum

ONE = Candidate(question="¿?\u2028", language="es", stratum=Stratum.SINGLE_HOP, documents=["d"], chunks=["c"])
OTHER = ONE.refused(Rejection.KNOWN, "dicho\nasí")


def test_what_was_put_is_there_again(tmp_path):
    path = tmp_path / "new" / "journal.jsonl"
    with Journal(path) as journal:
        assert journal.get("a") is None
        journal.put("a", [ONE, OTHER])
        journal.put("b", [])
        assert "a" in journal
    with Journal(path) as journal:
        assert journal.get("a") == [ONE, OTHER]
        assert journal.get("b") == []
        assert "c" not in journal


@pytest.mark.parametrize("cut", range(1, 30, 4))
def test_a_line_that_was_being_written_is_done_again(tmp_path, cut):
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.put("a", [ONE])
        journal.put("b", [OTHER])
    path.write_bytes(path.read_bytes()[:-cut])
    with Journal(path) as journal:
        assert ("a" in journal, "b" in journal) == (True, False)
        journal.put("b", [OTHER])
    with Journal(path) as journal:
        assert journal.get("b") == [OTHER]


def test_a_journal_of_something_else_is_not_written_over(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.write_text('{"some": "thing"}\n', encoding="utf-8")
    with pytest.raises(BrokenJournal, match="line 1"):
        Journal(path)
    assert path.read_text(encoding="utf-8") == '{"some": "thing"}\n'
