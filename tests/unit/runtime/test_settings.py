"""Settings are read by real processes here, since they come from the environment."""

import os
import subprocess
import sys

import pytest

READ = "from services.runtime.settings import ServerSettings as S; print(S.read().port)"
GOOD = {"SABUESO_IDENTITY_SECRET": "x" * 32}


def read(**environment):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SABUESO_")}
    return subprocess.run(
        [sys.executable, "-c", READ], env=clean | environment, capture_output=True, text=True, check=False
    )


def test_the_environment_is_read():
    assert read(**GOOD, SABUESO_PORT="50123").stdout == "50123\n"


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({}, "SABUESO_IDENTITY_SECRET: Field required"),
        ({**GOOD, "SABUESO_PROT": "1"}, "unknown settings: SABUESO_PROT"),
        ({**GOOD, "SABUESO_PORT": "http"}, "SABUESO_PORT: Input should be a valid integer"),
        ({**GOOD, "SABUESO_PORT": "70000"}, "SABUESO_PORT: Input should be less than or equal to 65535"),
    ],
)
def test_a_mistake_ends_the_process_and_names_the_variable(environment, says):
    done = read(**environment)
    assert done.returncode == 78
    assert says in done.stderr
    assert "Traceback" not in done.stderr
