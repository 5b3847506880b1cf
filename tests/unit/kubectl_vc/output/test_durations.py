from datetime import UTC, datetime, timedelta

import pytest

from kubectl_vc.output import durations

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("5m", 300), ("1h30m", 5400), ("0", 0), ("2.5s", 2.5), ("300ms", 0.3)],
)
def test_lengths_of_time_are_read_as_kubectl_reads_them(text, seconds):
    assert durations.parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "m", "5x", "5m later", "-5s", "5 m"])
def test_what_is_no_length_of_time_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="Write it like 90s, 5m or 1h30m"):
        durations.parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.42, "0.4s"), (9.96, "10.0s"), (12.4, "12s"), (59.7, "1m00s"), (125, "2m05s")],
)
def test_elapsed_time_is_short(seconds, text):
    assert durations.format_elapsed(seconds) == text


@pytest.mark.parametrize(
    ("ago", "text"),
    [
        (timedelta(seconds=-3), "0s"),
        (timedelta(seconds=119), "119s"),
        (timedelta(minutes=2), "2m"),
        (timedelta(minutes=5, seconds=3), "5m3s"),
        (timedelta(minutes=179), "179m"),
        (timedelta(hours=5, minutes=7), "5h7m"),
        (timedelta(hours=47), "47h"),
        (timedelta(days=3, hours=4), "3d4h"),
        (timedelta(days=100), "100d"),
        (timedelta(days=800), "2y70d"),
    ],
)
def test_ages_are_shown_as_kubectl_shows_them(ago, text):
    stamp = (NOW - ago).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert durations.format_age(stamp, NOW) == text


def test_no_timestamp_is_no_age():
    assert durations.format_age("", NOW) == "<unknown>"
