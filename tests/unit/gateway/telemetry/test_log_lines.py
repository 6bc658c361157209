"""Lines of the access log: the same JSON as that of every other logger, written together."""

import asyncio
import io
import json
import logging
import re

import pytest

from services.gateway.telemetry import access_log
from services.gateway.telemetry.log_lines import BufferedLines


@pytest.fixture
def stream():
    return io.StringIO()


@pytest.fixture
def logger(stream):
    logger = logging.Logger("sabueso.access", logging.INFO)
    logger.addHandler(BufferedLines("gateway", stream))
    return logger


def lines(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_says_what_those_of_other_loggers_say(logger, stream):
    logger.info("request", extra={"status": 200, "tenant": "señas", "odd": {1, 2}.__class__})
    (line,) = lines(stream)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}", line.pop("time"))
    assert line == {
        "level": "INFO", "logger": "sabueso.access", "message": "request", "service": "gateway", "status": 200,
        "tenant": "señas", "odd": "<class 'set'>",
    }  # fmt: skip


async def test_lines_of_one_moment_are_written_together(logger, stream):
    logger.info("one")
    logger.info("two")
    assert stream.getvalue() == ""
    async with asyncio.timeout(30):
        while not stream.getvalue():
            await asyncio.sleep(0.01)
    assert [line["message"] for line in lines(stream)] == ["one", "two"]
    logger.info("three")
    async with asyncio.timeout(30):
        while len(lines(stream)) < 3:
            await asyncio.sleep(0.01)


async def test_what_is_held_back_is_written_at_the_end(logger, stream):
    logger.info("last")
    logger.handlers[0].flush()  # as `logging.shutdown` does
    logger.handlers[0].flush()
    assert [line["message"] for line in lines(stream)] == ["last"]


async def test_no_more_lines_are_held_back_than_a_write_takes(logger, stream):
    for number in range(1001):
        logger.info("%d", number)
    assert [line["message"] for line in lines(stream)] == [str(number) for number in range(1000)]


async def test_what_filters_add_is_in_the_line(logger, stream):
    def add(record):
        record.trace_id = "0af7"
        return True

    logger.handlers[0].addFilter(add)
    logger.info("request")
    logger.handlers[0].flush()
    assert lines(stream)[0]["trace_id"] == "0af7"


def test_a_request_is_a_line_with_its_level_and_no_caller(caplog):
    caplog.set_level(logging.DEBUG, "sabueso.access")
    access_log.note({}, {"status": 204}, quiet=True)
    access_log.note({}, {"status": 200})
    assert [(record.levelname, record.getMessage(), record.status) for record in caplog.records] == [
        ("DEBUG", "request", 204), ("INFO", "request", 200),
    ]  # fmt: skip


async def test_a_log_that_nobody_reads_harms_no_request(logger, stream):
    stream.close()
    for number in range(501):
        logger.info("%d", number)
    logger.handlers[0].flush()
