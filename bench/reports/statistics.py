"""Quantiles, ratios and fairness of results. Pure.

Owns the arithmetic and no meaning. Hazard: every summary must contain the number of its values. A
quantile of few values is just one of them.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

ENOUGH = 1000
"""Number of values from which the 99.9 % quantile is reported."""


@dataclass(frozen=True, slots=True)
class ValueSummary:
    """A summary of values, in their own unit."""

    count: int
    p50: float
    p90: float
    p99: float
    p999: float
    """NaN below 1000 values, because it would be the worst one."""
    worst: float

    def as_dict(self) -> dict[str, float]:
        """Return the summary for JSON, without quantiles of too few values."""
        found = asdict(self)
        return {
            key: value for key, value in found.items() if not (key == "p999" and math.isnan(value))
        }


@dataclass(frozen=True, slots=True)
class RunSpread:
    """The same result of several runs."""

    count: int
    median: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """Return the range of the runs as a fraction of their median."""
        return (self.high - self.low) / self.median if self.median else 0.0

    def as_dict(self) -> dict[str, float]:
        """Return the spread for JSON."""
        return asdict(self)


def quantile(values: Sequence[float], part: float) -> float:
    """Return the smallest value that at least `part` of all values do not exceed."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(math.ceil(part * len(ordered)) - 1, 0)]


def summary(values: Iterable[float]) -> ValueSummary:
    """Summarize values. Without any, everything is NaN."""
    found = list(values)
    return ValueSummary(
        count=len(found),
        p50=quantile(found, 0.5),
        p90=quantile(found, 0.9),
        p99=quantile(found, 0.99),
        p999=quantile(found, 0.999) if len(found) >= ENOUGH else math.nan,
        worst=max(found, default=math.nan),
    )


def curve(values: Sequence[float]) -> list[float]:
    """Return the values at each percent, from 0 to 100, for a picture."""
    return [quantile(values, percent / 100) for percent in range(101)] if values else []


def spread(values: Iterable[float]) -> RunSpread:
    """Return median and range over several runs. Runs without the result are left out."""
    found = [value for value in values if not math.isnan(value)]
    if not found:
        return RunSpread(0, math.nan, math.nan, math.nan)
    return RunSpread(len(found), statistics.median(found), min(found), max(found))


def ratios(values: Sequence[float], to: Sequence[float]) -> list[float]:
    """Divide pair by pair, so that the common part of neighbouring runs cancels out."""
    return [value / base if base else math.nan for value, base in zip(values, to, strict=True)]


def jain(values: Sequence[float]) -> float:
    """Return Jain's index of fairness: 1 if all get the same, 1/n if one gets everything."""
    squares = len(values) * sum(value * value for value in values)
    return sum(values) ** 2 / squares if squares else math.nan
