"""Tenants made at once, and vc-manager's processor, without a cluster."""

import threading
from pathlib import Path
from typing import Any

import pytest

from bench import provision
from bench.programs.super_cluster import PodMemory


class ProvisionedCluster:
    """A super cluster whose manager takes a second for each tenant, and answers all together."""

    def __init__(self, together: int) -> None:
        self.made: list[str] = []
        self.deleted: list[str] = []
        self._meet = threading.Barrier(together, timeout=10)

    def kubectl(self, *words: str, **_: Any) -> str:
        match words:
            case ("vc", "create", name, *_):
                self._meet.wait()
                self.made.append(name)
            case ("vc", "delete", name, "--yes"):
                self.deleted.append(name)
        return ""

    def use(self) -> list[PodMemory]:
        seconds = {"vc-manager-a": len(self.made), "vc-manager-b": 0, "vc-syncer-a": 99}
        return [
            PodMemory(
                namespace="vc-manager", name=name, cpu_ns=int(1e9 * used), working_set=0, rss=0
            )
            for name, used in seconds.items()
        ]


def test_ten_at_once_are_made_together_and_deleted(monkeypatch, tmp_path: Path):
    """One after the other they would wait for ever."""
    monkeypatch.setattr(provision.time, "sleep", lambda _: None)
    cluster: Any = ProvisionedCluster(10)
    found = provision.at_once(cluster, "v1", tmp_path, 10)
    assert len(found["each"]) == 10
    assert found["manager_cpu_s"] == pytest.approx(10.0)
    assert sorted(cluster.deleted) == sorted(cluster.made) == sorted(found["each"])


def test_the_table_reports_old_and_new_results():
    alone = {"create_s": 9.0, "first_request_s": 9.5}
    idle = {"etcd-0": {"millicores": 1.0, "working_set_mib": 1.0, "rss_mib": 1.0}}
    old = {
        "cores": 2,
        "noise": {"load_1min": 0.0, "median_ms": 30.0, "spread": 0.1},
        "alone": [alone],
        "create": {},
        "idle": idle,
    }
    assert "at once" not in provision.table(old)
    each = {"a": alone, "b": alone}
    at_once = {"each": each, "all_s": 20.0, "per_tenant_s": 10.0, "manager_cpu_s": 1.5}
    new = provision.table(old | {"alone": [alone | {"manager_cpu_s": 0.5}], "at_once": at_once})
    assert "all 2 at once 20.0 s, 10.0 s a tenant, vc-manager 1.5 CPU-s" in new
    assert "alone, vc-manager CPU-s" in new
