import pytest

from services.evaluation.retrieval import command


def test_test_questions_are_not_read_without_a_reason(capsys):
    assert command.main(["--split", "test"]) == 2
    assert "say --reason" in capsys.readouterr().err


def test_an_unknown_collection_ends_the_command_before_anything_starts(capsys):
    assert command.main(["--collections", "xquad-fr"]) == 1
    assert "no such collection: xquad-fr" in capsys.readouterr().err


def test_a_folder_without_collections_ends_the_command(capsys, tmp_path):
    assert command.main(["--data", str(tmp_path)]) == 1
    assert "holds no collection" in capsys.readouterr().err


@pytest.mark.slow
def test_a_service_that_does_not_start_ends_the_command_with_its_log(capsys, tmp_path):
    no_model = f"onnx:{tmp_path / 'nothing'}"
    assert command.main(["--collections", "identifiers", "--max-questions", "1", "--model", no_model]) == 1
    assert "embedding ended with status 78" in capsys.readouterr().err


def test_each_reading_of_the_test_questions_is_a_line_of_the_log(tmp_path):
    log = tmp_path / "docs" / "test-readings.log"
    command.note_reading(log, "test", "release 1.0", ["cisi", "adi"])
    command.note_reading(log, "all", "a reason\nof two lines", ["cisi"])
    first, second = (line.split("\t") for line in log.read_text(encoding="utf-8").splitlines())
    assert first[2:] == ["test", "cisi,adi", "release 1.0"]
    assert second[2:] == ["all", "cisi", "a reason of two lines"]
    assert first[0].endswith("Z")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "make eval-retrieval"),
        (["--data", "/home/somebody/data"], "make eval-retrieval DATA=<folder>"),
        (
            ["--collections", "adi", "cisi", "--split", "test", "--reason", "release 1.0"],
            "make eval-retrieval ONLY='adi cisi' SPLIT=test REASON='release 1.0'",
        ),
        (["--max-questions", "120"], "make eval-retrieval MAX_QUESTIONS=120"),
    ],
)
def test_the_table_says_what_to_call_and_not_where_somebody_has_the_data(words, expected):
    assert command.command(command.read(words)) == expected
