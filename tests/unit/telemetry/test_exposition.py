"""Metrics as text, in the form that is asked for."""

import pytest
from prometheus_client import CollectorRegistry, Counter

from telemetry.exposition import Exposition


@pytest.mark.parametrize("version", ["x.y", "....", "9" * 5000, "\xe9", "1.0.0", ""])
def test_a_version_that_is_none_gets_the_plain_form(version):
    """The one that reaches the port may send it."""
    registry = CollectorRegistry()
    Counter("things", "Things.", registry=registry)
    accept = f"application/openmetrics-text; version={version}"
    content_type, body = Exposition(registry).render(accept)
    assert content_type
    assert b"things_total" in body
