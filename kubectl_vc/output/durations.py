"""Durations in kubectl's notation: parsing and printing. Pure."""

import math
import re
from datetime import UTC, datetime

_MAX_SECONDS = 2540400 * 3600.0
"""Longest duration in seconds. It is the longest one of Go in hours, and the API has no longer."""
_PART_PATTERN = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SIZES = {"s": 1, "m": 60, "h": 3600, "d": 86400, "y": 365 * 86400}
_AGES: tuple[tuple[float, str, str], ...] = (
    (120, "s", ""),
    (600, "m", "s"),
    (3 * 3600, "m", ""),
    (8 * 3600, "h", "m"),
    (48 * 3600, "h", ""),
    (8 * 86400, "d", "h"),
    (2 * 365 * 86400, "d", ""),
    (math.inf, "y", "d"),
)
"""Upper limit in seconds, the unit, and the finer unit that is shown with it."""


def parse_duration(text: str) -> float:
    """Return the seconds of `90s`, `5m`, `1h30m` or a bare number. Raises ValueError."""
    seconds = _sum_parts(text)
    if seconds > _MAX_SECONDS:
        raise ValueError("must be at most 2540400h (290 years)")
    return seconds


def _sum_parts(text: str) -> float:
    if re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", text):
        return float(text)
    parts = _PART_PATTERN.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a time. Write it like 90s, 5m or 1h30m.")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def format_elapsed(seconds: float) -> str:
    """Return the duration of a step: `0.4s`, `12s`, `2m05s`."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"


def format_age(stamp: str, now: datetime) -> str:
    """Return the age of an RFC 3339 timestamp as kubectl shows it: `45s`, `12m`, `5h`, `3d`."""
    if not stamp:
        return "<unknown>"
    then = datetime.fromisoformat(stamp)
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    seconds = max(0, int((now - then).total_seconds()))
    unit, finer = next((unit, finer) for limit, unit, finer in _AGES if seconds < limit)
    rest = seconds % _SIZES[unit] // _SIZES[finer] if finer else 0
    return f"{seconds // _SIZES[unit]}{unit}" + (f"{rest}{finer}" if rest else "")
