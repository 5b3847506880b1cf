"""Cluster IPs: which are reserved, and which Service has one."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kubeio.cache.store import Store, parse_entry
from syncer.rules.network import cluster_ips
from tests.support.syncer.tenant_views import TENANT, view


def test_addresses_of_others_are_reserved():
    look = view()
    namespace = parse_entry(b'{"metadata":{"name":"web","uid":"u"},"kind":"Namespace"}')
    look.stores["Namespace"].put(namespace, live=True)

    def held_in(name: str) -> dict[str, Any]:
        return {"spec": {"parentRef": {"resource": "services", "namespace": name, "name": "s"}}}

    assert cluster_ips.is_taken_by_other(held_in("default"), look)
    assert cluster_ips.is_taken_by_other(held_in("other-tenant-web"), look)
    assert not cluster_ips.is_taken_by_other(held_in(f"{TENANT.root}-web"), look)
    assert not cluster_ips.is_taken_by_other(held_in(TENANT.root), look)


@pytest.mark.parametrize("crowd", [0, 2000])
def test_the_addresses_of_a_slice_are_found_among_few_and_among_many(crowd):
    """Whichever are fewer are gone through: the slice has 1,024, of which the store has two."""
    store, names = Store(), ["10.96.8.77", "10.96.11.255", "10.96.12.1", "fd00::1", "nonsense"]
    names += [f"10.97.{number // 256}.{number % 256}" for number in range(crowd)]
    for name in names:
        store.put(parse_entry(orjson.dumps({"metadata": {"name": name, "uid": name}})), live=True)
    assert [
        entry.name for entry in cluster_ips.iterate_addresses_in_range(store, view().service_range)
    ] == names[:2]
