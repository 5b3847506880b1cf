"""Metrics of the reload, as a real API server prints them."""

from datetime import UTC, datetime

from vcmanager.plan.access import reload_metrics

P = reload_metrics.PREFIX
LINES = [
    P + b'last_config_info{apiserver_id_hash="sha256:aa",hash="sha256:bb"} 1',
    P + b'automatic_reloads_total{apiserver_id_hash="sha256:aa",status="success"} 1',
    P + b'automatic_reload_last_timestamp_seconds{apiserver_id_hash="a",status="success"} 1.7e+09',
    b"something_else 1",
    P + b"not a metric",
]
FAILURE = P + b'automatic_reload_last_timestamp_seconds{apiserver_id_hash="a",status="failure"} '


def test_the_hash_of_the_configuration_in_use():
    assert reload_metrics.parse_metrics(LINES) == reload_metrics.ReloadState(hash="sha256:bb")
    assert reload_metrics.parse_metrics([]) == reload_metrics.ReloadState()


def test_a_failure_counts_until_a_success():
    after = reload_metrics.parse_metrics([*LINES, FAILURE + b"1.700000001e+09"])
    assert after.failed == datetime.fromtimestamp(1_700_000_001, UTC)
    assert reload_metrics.parse_metrics([*LINES, FAILURE + b"1.6e+09"]).failed is None
