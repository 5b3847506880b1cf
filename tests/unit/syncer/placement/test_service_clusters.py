"""Clusters of the pods of Services."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from syncer.placement.service_clusters import ServiceClusters


def service(version: str = "1") -> Any:
    return SimpleNamespace(uid="u", resource_version=version)


def test_a_service_is_read_once_for_each_version():
    reads: list[str] = []

    def read(entry: Any) -> dict[str, Any]:
        reads.append(entry.resource_version)
        return {"matchLabels": {}}

    known = ServiceClusters()
    known.get(service(), read)
    known.record_cluster("u", "c2")
    assert known.get(service(), read).assigned_cluster == "c2"
    assert known.get(service("2"), read).assigned_cluster == "", "its selector may be another"
    assert reads == ["1", "2"]


def test_a_split_service_is_recorded_until_it_is_deleted():
    known = ServiceClusters()
    known.get(service(), lambda _: {})
    known.record_split("u")
    assert known.is_split("u")
    known.forget("u")
    assert not known.is_split("u")
