"""What a run says of how it was made."""

import pytest

from services.evaluation.runs.facts import command_line, facts


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["/usr/bin/sabueso", "evals", "run", "demo/evals/answers"], "sabueso evals run demo/evals/answers"),
        (["sabueso", "--variant", "k3: strategy=rag"], "sabueso --variant 'k3: strategy=rag'"),
        (["sabueso", "--store", "postgresql://u:secret@db/x", "--noise", "3"], "sabueso --store … --noise 3"),
        (["sabueso", "--database=postgresql://u:secret@db/x"], "sabueso --database=…"),
        (["sabueso", "--judge-key", "a=secret", "--judge-key=secret"], "sabueso --judge-key … --judge-key=…"),
    ],
)
def test_the_command_is_told_without_keys_and_addresses_of_databases(words, told):
    assert command_line(words) == told


def test_machine_versions_and_commit_are_told():
    found = facts("the command")
    assert found["command"] == "the command"
    assert {"commit", "machine", "python", "packages"} <= found.keys()
