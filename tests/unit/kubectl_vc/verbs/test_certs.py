"""`kubectl vc certs`: rows, their order, and what is printed."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.verbs import certs
from tenancy import wellknown

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)


def table(rows):
    return {
        "metadata": {"name": "vc-certificates", "namespace": "kube-public"},
        "data": {wellknown.CERTIFICATES_KEY: rows if isinstance(rows, str) else json.dumps(rows)},
    }


def row(name, days, kind="certificate"):
    stamp = (NOW + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
    renewal = "" if kind == "authority" else "2026-12-01T00:00:00Z"
    issued = "2026-11-01T00:00:00Z"
    return {"name": name, "kind": kind, "issued": issued, "expires": stamp, "renewal": renewal}


def test_certificate_that_ends_first_is_first():
    rows = certs.parse_rows(
        table([row("root-ca", 3000, "authority"), row("etcd-ca", 0.5), row("late", -1)])
    )
    lines = certs.build_table(rows, now=NOW).splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "late", "etcd-ca", "root-ca"]
    assert "expired" in lines[1]
    assert "12h00m" in lines[2]
    assert lines[3].split()[-2:] == ["3000d", "never"]


@pytest.mark.parametrize("rows", ["", "{", "[1]", '[{"name": "x"}]'])
def test_unreadable_table_is_an_error_with_a_remedy(rows):
    with pytest.raises(CliError, match="Delete it, and vc-manager creates it again"):
        certs.parse_rows(table(rows))
