"""Which policy binds a tenant, and what the VirtualCluster itself adds to it."""

from typing import Any

import orjson

from kubeio.cache.store import Store, parse_entry
from syncer.tenants import policy_binding
from syncer.tenants.policy_binding import PolicyUnavailable
from tenancy.policies import BASELINE_POLICY
from tenancy.specs import PolicyRef, VirtualClusterSpec


def policies(**specs: Any) -> Store:
    """Return a cache of policies by name."""
    store = Store()
    for name, spec in specs.items():
        body = {"kind": "TenantPolicy", "metadata": {"name": name}, "spec": spec}
        store.put(parse_entry(orjson.dumps(body)), live=True)
    return store


def cluster(policy: str = "", **fields: Any) -> VirtualClusterSpec:
    return VirtualClusterSpec(
        cluster_version_name="v", policy_ref=PolicyRef(name=policy) if policy else None, **fields
    )


def test_who_names_no_policy_has_the_default_even_when_it_is_not_there():
    assert policy_binding.resolve_policy(cluster(), policies()) == BASELINE_POLICY
    found = policy_binding.resolve_policy(cluster(), policies(baseline={"daemonSets": "Refuse"}))
    assert not isinstance(found, PolicyUnavailable)
    assert found.daemon_sets == "Refuse"


def test_a_policy_that_is_named_and_missing_or_unreadable_allows_nothing():
    found = policy_binding.resolve_policy(cluster("narrow"), policies())
    assert isinstance(found, PolicyUnavailable)
    assert "narrow" in found.message
    assert isinstance(
        policy_binding.resolve_policy(cluster("odd"), policies(odd={"daemonSets": 1})),
        PolicyUnavailable,
    )


def test_what_the_cluster_keeps_in_the_tenant_is_added_to_what_its_policy_does():
    known = policies(narrow={"metadata": {"opaquePrefixes": ["cost"]}, "daemonSets": "Refuse"})
    found = policy_binding.resolve_policy(
        cluster("narrow", opaque_meta_prefixes=("internal",)), known
    )
    assert not isinstance(found, PolicyUnavailable)
    assert found.metadata.opaque_prefixes == ("cost", "internal")
    assert found.daemon_sets == "Refuse"
    alone = policy_binding.resolve_policy(cluster(opaque_meta_prefixes=("internal",)), policies())
    assert not isinstance(alone, PolicyUnavailable)
    assert alone.metadata.opaque_prefixes == ("internal",)


def test_networks_that_another_policy_divides_differently_cannot_be_used():
    def offer(vlans: str) -> dict[str, Any]:
        devices = [{"name": "br", "tenantVlans": vlans}]
        return {"network": {"attachments": {"types": ["bridge"], "devices": devices}}}

    equal = policies(mine=offer("1000-1999"), theirs=offer("1000-1999"), other={})
    found = policy_binding.resolve_policy(cluster("mine"), equal)
    assert not isinstance(found, PolicyUnavailable)
    assert not found.network.attachments.conflict
    unequal = policies(mine=offer("1000-1999"), theirs=offer("1500-1600"))
    found = policy_binding.resolve_policy(cluster("mine"), unequal)
    assert not isinstance(found, PolicyUnavailable)
    assert "TenantPolicy theirs" in found.network.attachments.conflict
    unreadable = policies(mine=offer("1000-1999"), theirs=offer("x"))
    found = policy_binding.resolve_policy(cluster("mine"), unreadable)
    assert not isinstance(found, PolicyUnavailable)
    assert not found.network.attachments.conflict
