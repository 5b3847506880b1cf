"""Quantities as Kubernetes spells them, and what is none."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tenancy.quantities import quantity


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1Gi", 2**30),
        ("1.5Ki", 1536),
        ("3", 3),
        ("2k", 2000),
        ("5E", 5 * 10**18),
        ("5Ei", 5 * 2**60),
        ("5e3", 5000),
        ("100m", Decimal("0.1")),
        ("", None),
        ("1 Gi", None),
        ("1e9999999", None),
        ("9" * 99, None),
        (None, None),
        (7, None),
        ([], None),
    ],
)
def test_quantities(text, number):
    assert quantity(text) == number
