"""Host names in objects of SyncRules: judged by the policy as the hosts of Ingresses are.

Pure. Owns the reading of hosts by the paths of a rule. `ingress_hosts` has the order of claims.

Hazard: each object must have a host, and the host must be the tenant's. One gateway serves all
tenants, so any other route would receive traffic of other tenants.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from kubeio.cache.store import Entry
from syncer.model.rejections import RejectionProblem
from syncer.model.tenant_view import TenantView
from syncer.rules.network import ingress_hosts
from syncer.rules.network.ingress_hosts import BY_HOST_INDEX, MAX_HOSTS, MAX_LENGTH, HostHolder
from tenancy.sync_rules import field_paths
from tenancy.sync_rules.specs import SyncRule

_RULE_NAME = "ingress-host"
"""The same rule as for Ingresses, because the same fields of the policy allow more."""


def build_index(paths: Iterable[str]) -> Callable[[Entry], frozenset[str]]:
    """Return the function that returns the hosts at some paths of an object."""
    kept = tuple(paths)
    return lambda entry: list_hosts(entry.decode(), kept) if kept else frozenset()


def build_indexes(rule: SyncRule) -> Mapping[str, Callable[[Entry], frozenset[str]]]:
    """Return the index by host of a cache with objects of a rule."""
    return {BY_HOST_INDEX: build_index(rule.spec.hostnames)}


def list_hosts(body: Mapping[str, Any], paths: Iterable[str]) -> frozenset[str]:
    """Return the hosts at some paths of an object, without malformed ones."""
    return ingress_hosts.select_hosts(
        host for host, _ in islice(_iterate_hosts(body, paths), MAX_HOSTS)
    )


def find_malformed(rule: SyncRule, body: Mapping[str, Any]) -> Iterator[RejectionProblem]:
    """Yield a problem for each host that no API accepts, and for too many hosts."""
    found = list(_iterate_hosts(body, rule.spec.hostnames))
    for host, where in found:
        if not isinstance(host, str) or len(host) > MAX_LENGTH:
            text = "must be a host name. Correct the object"
            yield RejectionProblem("malformed", where, text)
    if len(found) > MAX_HOSTS:
        text = f"has {len(found)} hosts, and the limit is {MAX_HOSTS}. Use several objects"
        yield RejectionProblem("too-large", "spec", text)


def find_problems(
    rule: SyncRule, body: Mapping[str, Any], view: TenantView
) -> Iterator[RejectionProblem]:
    """Yield a problem for each host of a tenant object that must not be synced."""
    if not rule.spec.hostnames:
        return
    own, has_host = _get_twin(rule, body["metadata"], view), False
    for host, where in _iterate_hosts(body, rule.spec.hostnames):
        if host:
            has_host = True
            yield from ingress_hosts.find_host_problems(host.lower(), where, own, view)
    if not has_host and view.policy.network.catch_all_ingresses != "Allow":
        where = rule.spec.hostnames[0].removesuffix("[]")
        text = "must be set, because the object would receive requests of other tenants. Set a host"
        yield RejectionProblem(_RULE_NAME, where, text)


def _iterate_hosts(body: Mapping[str, Any], paths: Iterable[str]) -> Iterator[tuple[Any, str]]:
    """Yield each value at some paths, and its place."""
    for path in paths:
        for holder, key, where in field_paths.iterate_places(body, path):
            yield holder[key], where


def _get_twin(rule: SyncRule, metadata: Mapping[str, Any], view: TenantView) -> HostHolder | None:
    store = view.get_host_stores().get(rule.resource.kind)
    place = view.get_super_namespace(metadata["namespace"])
    twin = store.get(place, metadata["name"]) if store is not None else None
    if twin is None:
        return None
    return HostHolder(twin, list_hosts(twin.decode(), rule.spec.hostnames))
