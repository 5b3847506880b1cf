"""Kubernetes quantities as numbers that can be compared. Pure.

Hazard: over-long text must not be parsed, and is no quantity. A tenant may write anything, and
parsing it would be slow.
"""

import re
from decimal import Decimal
from typing import Any

_QUANTITY_PATTERN = re.compile(
    r"([+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40}))([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?"
)
_BINARY_SUFFIXES = {f"{letter}i": Decimal(2) ** (10 * (n + 1)) for n, letter in enumerate("KMGTPE")}
_DECIMAL_SUFFIXES = {
    **{letter: Decimal(10) ** (3 * (n + 1)) for n, letter in enumerate("kMGTPE")},
    **{letter: Decimal(10) ** (-3 * (n + 1)) for n, letter in enumerate("mun")},
}
_WRITTEN_SUFFIXES = ("m", "", "k", "M", "G", "T", "P", "E")
_MAX_QUANTITY = Decimal(2**63 - 1)


def format_quantity(number: Decimal) -> str:
    """Return an amount, 0 or more, as API servers write it: 4 for 4000m, and 8G for 8000000000.

    Amounts below a thousandth are dropped, and amounts above the largest value become that value.
    An API server would return any other form differently, and the caller would write it again.
    """
    thousandths, suffixes = int(min(number, _MAX_QUANTITY) * 1000), list(_WRITTEN_SUFFIXES)
    while thousandths and thousandths % 1000 == 0 and len(suffixes) > 1:
        thousandths //= 1000
        suffixes.pop(0)
    return f"{thousandths}{suffixes[0]}" if thousandths else "0"


def parse_quantity(text: Any) -> Decimal | None:
    """Return a quantity as a number, or None for anything else."""
    found = _QUANTITY_PATTERN.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    number, suffix = Decimal(found[1]), found[2] or ""
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix not in _BINARY_SUFFIXES:
        return number * Decimal(10) ** int(suffix[1:])
    return number * (_BINARY_SUFFIXES.get(suffix) or _DECIMAL_SUFFIXES.get(suffix) or Decimal(1))
