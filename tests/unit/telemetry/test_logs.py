"""One line per record, the one that wrote it, and no secrets in it."""

from __future__ import annotations

import io
import json
import logging

import pytest
import structlog

from telemetry import logs


@pytest.fixture
def stream():
    """Leave logging as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:], root.level = handlers, level
    root.setLevel(level)
    structlog.reset_defaults()


def _lines(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_our_records_and_the_libraries_have_one_shape(stream):
    logs.configure_logging("INFO", console=False, stream=stream)
    structlog.get_logger("ours").info("pod.created", pod="n/a", attempt=2)
    logging.getLogger("theirs").warning("it is %s", "late", extra={"job": 7})
    ours, theirs = _lines(stream)
    assert ours.pop("timestamp").endswith("Z")
    assert theirs.pop("timestamp").endswith("Z")
    assert ours == {
        "event": "pod.created",
        "level": "info",
        "logger": "ours",
        "pod": "n/a",
        "attempt": 2,
    }
    assert theirs == {"event": "it is late", "level": "warning", "logger": "theirs", "job": 7}


def test_what_is_worked_on_is_on_every_record_and_asked_for_no_other(stream):
    asked = []

    def subject():
        asked.append(True)
        return {"tenant": "t", "name": "mine"}

    logs.configure_logging("INFO", console=False, stream=stream)
    token = logs.LOG_SUBJECT.set(subject)
    try:
        structlog.get_logger("ours").info("a", name="its own")
        structlog.get_logger("ours").debug("unseen")
        logging.getLogger("theirs").info("b")
    finally:
        logs.LOG_SUBJECT.reset(token)
    structlog.get_logger("ours").info("c")
    lines = _lines(stream)
    assert [line.get("tenant") for line in lines] == ["t", "t", None]
    assert [line.get("name") for line in lines] == ["its own", "mine", None]
    assert len(asked) == 2


def test_the_level_counts_and_chatty_libraries_are_kept_quiet(stream):
    logs.configure_logging("debug", console=False, stream=stream)
    structlog.get_logger("ours").debug("seen")
    logging.getLogger("aiohttp.client").info("noise")
    assert [line["event"] for line in _lines(stream)] == ["seen"]
    logs.configure_logging("WARNING", console=False, stream=stream)
    structlog.get_logger("ours").info("unseen")
    assert len(_lines(stream)) == 1


def test_a_traceback_stays_on_its_line(stream):
    logs.configure_logging("INFO", console=False, stream=stream)
    try:
        _ = 1 / 0
    except ZeroDivisionError:
        structlog.get_logger("ours").exception("crashed")
    (line,) = _lines(stream)
    assert "ZeroDivisionError: division" in line["exception"]


def test_values_that_are_no_json_are_shown_as_they_show_themselves(stream):
    logs.configure_logging("INFO", console=False, stream=stream)
    structlog.get_logger("ours").info("a", value={1, 2})
    structlog.get_logger("ours").info("b", big=2**70, broken="\ud800", value={1, 2})
    first, second = _lines(stream)
    assert first["value"] == "{1, 2}"
    assert (second["big"], second["broken"], second["value"]) == (2**70, "\ud800", "{1, 2}")


@pytest.mark.parametrize("name", ["token", "Authorization", "client_key", "bearer_token"])
def test_fields_with_the_names_of_secrets_are_blank(stream, name):
    logs.configure_logging("INFO", console=False, stream=stream)
    structlog.get_logger("ours").info("a", **{name: "s3cret"}, body=b"s3cret")
    assert "s3cret" not in stream.getvalue()
    assert _lines(stream)[0]["body"] == "<6 bytes>"


def test_a_terminal_gets_columns(stream):
    logs.configure_logging("INFO", console=True, stream=stream)
    structlog.get_logger("ours").info("pod.created", pod="n/a")
    assert "pod.created" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_configuring_twice_does_not_report_everything_twice(stream):
    logs.configure_logging("INFO", console=False, stream=stream)
    logs.configure_logging("INFO", console=False, stream=stream)
    logging.getLogger("theirs").warning("once")
    assert len(_lines(stream)) == 1
