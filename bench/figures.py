"""Quantiles, ratios and fairness of what was measured; pure.

Owns the arithmetic and no meaning. Hazard: a quantile of few values is one of them, so every
summary carries how many there were.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

ENOUGH = 1000
"""Values of which one in a thousand is told."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Some values, in their own unit."""

    count: int
    p50: float
    p90: float
    p99: float
    p999: float
    """NaN of fewer than a thousand values: it would be the worst one."""
    worst: float

    def as_dict(self) -> dict[str, float]:
        """Return the summary for JSON, without what there are too few values for."""
        found = asdict(self)
        return {
            key: value for key, value in found.items() if not (key == "p999" and math.isnan(value))
        }


@dataclass(frozen=True, slots=True)
class Spread:
    """The same figure of several runs."""

    count: int
    median: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """Return how far apart the runs are, as a part of their median."""
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


def summary(values: Iterable[float]) -> Summary:
    """Sum up values; of none everything is NaN."""
    found = list(values)
    return Summary(
        count=len(found),
        p50=quantile(found, 0.5),
        p90=quantile(found, 0.9),
        p99=quantile(found, 0.99),
        p999=quantile(found, 0.999) if len(found) >= ENOUGH else math.nan,
        worst=max(found, default=math.nan),
    )


def curve(values: Sequence[float]) -> list[float]:
    """Return the values at each percent, from 0 to 100, as a picture shows them."""
    return [quantile(values, percent / 100) for percent in range(101)] if values else []


def spread(values: Iterable[float]) -> Spread:
    """Return median and range of what several runs gave; runs without a figure do not count."""
    found = [value for value in values if not math.isnan(value)]
    if not found:
        return Spread(0, math.nan, math.nan, math.nan)
    return Spread(len(found), statistics.median(found), min(found), max(found))


def ratios(values: Sequence[float], to: Sequence[float]) -> list[float]:
    """Divide pair by pair: what one run and its neighbour in time share cancels out."""
    return [value / base if base else math.nan for value, base in zip(values, to, strict=True)]


def jain(values: Sequence[float]) -> float:
    """Return Jain's index of fairness: 1 when all get the same, 1/n when one gets everything."""
    squares = len(values) * sum(value * value for value in values)
    return sum(values) ** 2 / squares if squares else math.nan
