"""The tenant of a volume that outlived its claim."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kubeio.cache.store import parse_entry
from syncer.rules.quota import retained_volumes


@pytest.mark.parametrize(
    ("namespace", "roots"),
    [
        ("default-b41df0-vc-web", ["default-b41df0-vc"]),
        ("team-a-b41df0-my-vc-web", ["team-a-b41df0-my", "team-a-b41df0-my-vc"]),
        ("default", []),
        ("kube-system", []),
        ("default-b41dfx-vc-web", []),
    ],
)
def test_a_super_namespace_begins_with_the_root_of_its_tenant(namespace: str, roots: list[str]):
    assert retained_volumes.list_possible_roots(namespace) == roots


@pytest.mark.parametrize(
    ("spec", "roots"),
    [
        (
            {
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": "default-b41df0-vc-web"},
            },
            ["default-b41df0-vc"],
        ),
        (
            {
                "persistentVolumeReclaimPolicy": "Delete",
                "claimRef": {"namespace": "default-b41df0-vc-web", "name": "Retain"},
            },
            [],
        ),
        ({"persistentVolumeReclaimPolicy": "Retain"}, []),
    ],
)
def test_only_retained_volumes_of_a_claim_are_indexed(spec: dict[str, Any], roots: list[str]):
    entry = parse_entry(orjson.dumps({"metadata": {"name": "v"}, "spec": spec}))
    assert list(retained_volumes.index_by_retained_root(entry)) == roots
