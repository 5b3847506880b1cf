"""Deletion protection and scheduled deletion (T2-12)."""

from datetime import UTC, datetime, timedelta

import pytest

from tenancy import conditions, deletion, wellknown


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0s", 0),
        ("24h", 86_400),
        ("1h30m", 5_400),
        ("90s", 90),
        ("", 0),
        ("1d", 0),
        ("soon", 0),
        ("-1h", 0),
        (None, 0),
        (5, 0),
    ],
)
def test_a_grace_period_is_a_duration_and_anything_else_is_none(text, seconds):
    assert deletion.parse_grace_period(text) == timedelta(seconds=seconds)


def test_the_time_of_a_deletion_is_read_as_it_was_written():
    moment = datetime(2026, 3, 1, 12, 30, 15, tzinfo=UTC)
    written = {wellknown.DELETE_AFTER: conditions.format_time(moment)}
    assert deletion.parse_scheduled_time(written) == moment


@pytest.mark.parametrize("written", [{}, {wellknown.DELETE_AFTER: "yesterday"}])
def test_a_time_that_cannot_be_read_deletes_nothing(written):
    assert deletion.parse_scheduled_time(written) is None


@pytest.mark.parametrize(
    ("value", "expected"), [("enabled", True), ("disabled", False), ("true", False)]
)
def test_protection_is_one_word(value, expected):
    assert deletion.is_protected({wellknown.DELETION_PROTECTION: value}) is expected
