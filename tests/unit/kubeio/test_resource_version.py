"""Resource versions: a number of 64 bits, or none."""

from __future__ import annotations

import pytest

from kubeio.resource_version import parse_revision


@pytest.mark.parametrize(
    ("said", "number"), [("12", 12), ("", 0), ("\u00b2", 0), ("x", 0), ("9" * 19, 10**19 - 1)]
)
def test_a_revision_is_a_number_of_64_bits_or_none(said, number):
    assert parse_revision(said) == number
    assert parse_revision("9" * 5000) == 0
