"""Quantities as Kubernetes spells them, and what is none."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tenancy.quantities import format_quantity, parse_quantity


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
        (".5Gi", 2**29),
        (".", None),
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
    assert parse_quantity(text) == number


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Decimal(0), "0"),
        (Decimal("0.0001"), "0"),
        (Decimal("0.25"), "250m"),
        (Decimal("5.5"), "5500m"),
        (Decimal(4), "4"),
        (Decimal(110), "110"),
        (Decimal(1000), "1k"),
        (Decimal(1500), "1500"),
        (Decimal(8 * 10**9), "8G"),
        (Decimal(8 * 2**30), "8589934592"),
        (Decimal(2 * 10**18), "2E"),
        (Decimal(10**21), "9223372036854775807"),
    ],
)
def test_amounts_are_written_as_api_servers_write_them(number, text):
    """`tests/integration/syncer/test_target_nodes.py` asks one."""
    assert format_quantity(number) == text
