import logging

from prometheus_client import REGISTRY

from services.runtime import telemetry
from services.runtime.settings import ServerSettings
from services.runtime.testing import SECRET


def test_a_service_is_told_before_its_first_call():
    handlers, level = logging.root.handlers[:], logging.root.level
    try:
        telemetry.start("kennel", ServerSettings(identity_secret=SECRET, metrics_port=0))
    finally:
        logging.root.handlers[:], logging.root.level = handlers, level
    assert REGISTRY.get_sample_value("sabueso_service_info", {"service": "kennel"}) == 1
