"""Values of one metric label that come from input, in a bounded number.

Owns which inputs have a label of their own. Hazard: a label value stays in the metrics until the
process ends. Without a bound, an input that tenants choose would exhaust memory.
"""

from collections.abc import Callable


class BoundedLabels:
    """Label values: the first inputs get one each, and all later inputs share one."""

    def __init__(self, limit: int, *, other: str, build: Callable[[str], str]) -> None:
        """Start without labels. `build` returns an input's label, `other` is the shared one."""
        self._limit = limit
        self._other = other
        self._build = build
        self._labels: dict[str, str] = {}

    def get(self, value: str) -> str:
        """Return the label of an input. An input keeps its label."""
        label = self._labels.get(value)
        if label is None:
            if len(self._labels) >= self._limit:
                return self._other
            label = self._labels[value] = self._build(value)
        return label
