from datetime import UTC, datetime

import pytest

from kubectl_vc.output.printers import OutputFormat
from kubectl_vc.verbs import listing

NOW = datetime(2026, 1, 2, tzinfo=UTC)
NEW = {
    "metadata": {
        "name": "new",
        "namespace": "shop",
        "creationTimestamp": "2026-01-01T23:59:00Z",
    },
    "spec": {"clusterVersionName": "v1.36"},
}
OLD = {
    "metadata": {"name": "old", "namespace": "shop", "creationTimestamp": "2025-12-30T00:00:00Z"},
    "spec": {"clusterVersionName": "v1.35", "policyRef": {"name": "trusted"}},
    "status": {
        "phase": "Running",
        "version": "v1.35.1",
        "endpoint": "https://192.0.2.1:30001",
        "clusterNamespace": "shop-abcdef-old",
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "Ready", "message": "all\n well"},
            {"type": "Synced", "status": "False", "reason": "StoreWentBack"},
        ],
    },
}


def test_the_table_has_the_age_last_and_reports_what_is_not_known():
    assert listing.build_table([NEW, OLD], now=NOW, everywhere=False, form=OutputFormat.TABLE) == (
        "NAME   PHASE     READY     SYNCED    POLICY     VERSION   ENDPOINT                  AGE\n"
        "new    Pending   Unknown   Unknown   baseline   <none>    <none>                    60s\n"
        "old    Running   True      False     trusted    v1.35.1   https://192.0.2.1:30001   3d\n"
    )


def test_namespaces_come_first_and_wide_adds_columns():
    lines = listing.build_table(
        [OLD], now=NOW, everywhere=True, form=OutputFormat.WIDE
    ).splitlines()
    assert lines[0].split() == [
        *("NAMESPACE", "NAME", "PHASE", "READY", "SYNCED", "POLICY", "VERSION", "ENDPOINT"),
        *("CLUSTER-VERSION", "ROOT-NAMESPACE", "MESSAGE", "AGE"),
    ]
    assert lines[1].split() == [
        *("shop", "old", "Running", "True", "False", "trusted", "v1.35.1"),
        "https://192.0.2.1:30001",
        *("v1.35", "shop-abcdef-old", "all", "well", "3d"),
    ]


def test_one_that_is_being_deleted_reports_it():
    going = {**OLD, "metadata": {**OLD["metadata"], "deletionTimestamp": "2026-01-02T00:00:00Z"}}
    table = listing.build_table([going], now=NOW, everywhere=False, form=OutputFormat.TABLE)
    assert "Terminating" in table


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("error: error parsing jsonpath {.x, unclosed action\n", "error parsing jsonpath {.x"),
        ("Error executing template: nil is not iterable\n\tmap[a:b]\n", "executing template: nil"),
        ("", "kubectl failed without a message"),
    ],
)
def test_a_failure_of_kubectl_is_one_line_without_its_prefix(text, message):
    found = listing.describe_kubectl_failure(text)
    assert message in found
    assert "\n" not in found
    assert not found.startswith("error:")
