"""Hosts of Ingresses: the hosts that a tenant may name, and the owner of each host.

Pure. Owns the index by host, the rules on hosts, and the order of claims to a host. A host belongs
to the tenant of the oldest object in the super cluster that names it, or to the super cluster
itself. Such an object is an Ingress, or of a SyncRule with host names. Must not know how other
tenants are notified that a host is free.

Hazard: a rule must have a host, and the host must be the tenant's. One controller serves all
tenants, so any other rule would receive traffic of other tenants. The hosts in `tls` must be hosts
of the rules. Otherwise a controller would serve the tenant's certificate for a host of another
tenant.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kubeio.cache.store import Entry, Store
from syncer.model.rejections import RejectionProblem
from syncer.model.tenant_view import TenantView
from syncer.model.unstructured import as_mapping, as_mappings, as_strings
from tenancy import ownership

INGRESS = "Ingress"
FOREIGN_INGRESS = "Ingress of the super cluster"
"""Key of the cache of Ingresses that belong to no tenant."""
BY_HOST_INDEX = "host"
"""Index of Ingresses and other objects by the hosts that they name."""
MAX_HOSTS = 500
"""Maximum number of hosts of one Ingress. Each host is looked up."""
MAX_LENGTH = 253
"""Maximum length of a host in characters."""
_WILDCARD_PREFIX = "*."
_RULE_NAME = "ingress-host"


class HostHolder(NamedTuple):
    """An object of the tenant in the super cluster, and the hosts that it has there."""

    entry: Entry
    hosts: frozenset[str]


def index_by_host(entry: Entry) -> frozenset[str]:
    """Return the hosts that the rules of an Ingress name."""
    return _get_hosts(as_mapping(entry.decode().get("spec")))


def _get_hosts(spec: Mapping[str, Any]) -> frozenset[str]:
    return select_hosts(rule.get("host") for rule in as_mappings(spec.get("rules"))[:MAX_HOSTS])


def select_hosts(values: Iterable[Any]) -> frozenset[str]:
    """Return values that can be hosts, in lower case."""
    return frozenset(
        host.lower() for host in values if isinstance(host, str) and 0 < len(host) <= MAX_LENGTH
    )


def iterate_users(store: Store, hosts: Iterable[str]) -> Iterator[Entry]:
    """Yield the objects of a cache that name one of some hosts, or a host that matches one."""
    for host in hosts:
        for key in _iterate_matching_hosts(host):
            yield from store.index(BY_HOST_INDEX, key)
        if host.startswith(_WILDCARD_PREFIX):  # few may have a wildcard
            for value in store.list_index_values(BY_HOST_INDEX):
                if value.endswith(host[1:]):
                    yield from store.index(BY_HOST_INDEX, value)


def _iterate_matching_hosts(host: str) -> Iterator[str]:
    """Yield a host, and every wildcard that covers it."""
    yield host
    labels = host.removeprefix(_WILDCARD_PREFIX).split(".")
    for number in range(1, len(labels)):
        yield _WILDCARD_PREFIX + ".".join(labels[number:])


def write_certificate_hosts(spec: Mapping[str, Any]) -> None:
    """Write the hosts of the rules into each entry of `tls` without hosts, in place.

    Such an entry stands for every host of the controller (`IngressTLS.hosts` in the API), and so
    for hosts of other tenants.
    """
    hosts = sorted({rule["host"] for rule in spec.get("rules") or () if rule.get("host")})
    for item in spec.get("tls") or ():
        if hosts and not item.get("hosts"):
            item["hosts"] = hosts


def find_malformed(spec: Mapping[str, Any]) -> Iterator[RejectionProblem]:
    """Yield a problem for each host that no API accepts, and for too many hosts."""
    rules, tls = as_mappings(spec.get("rules")), as_mappings(spec.get("tls"))
    for number, rule in enumerate(rules):
        host = rule.get("host") or ""
        if not isinstance(host, str) or len(host) > MAX_LENGTH:
            text = "must be a host name. Correct the object"
            yield RejectionProblem("malformed", f"spec.rules[{number}].host", text)
    count = len(rules) + sum(len(as_strings(item.get("hosts"))) for item in tls)
    if count > MAX_HOSTS:
        text = f"has {count} hosts, and the limit is {MAX_HOSTS}. Use several Ingresses"
        yield RejectionProblem("too-large", "spec", text)


def find_problems(
    spec: Mapping[str, Any], metadata: Mapping[str, Any], view: TenantView
) -> Iterator[RejectionProblem]:
    """Yield a problem for each host of a tenant's Ingress that must not be synced."""
    is_for_all = view.policy.network.catch_all_ingresses == "Allow"
    if spec.get("defaultBackend") and not is_for_all:
        text = "would receive requests of other tenants. Leave it out, and set hosts in rules"
        yield RejectionProblem(_RULE_NAME, "spec.defaultBackend", text)
    own = _get_twin(metadata, view)
    for number, rule in enumerate(as_mappings(spec.get("rules"))):
        path, host = f"spec.rules[{number}].host", (rule.get("host") or "").lower()
        if host:
            yield from find_host_problems(host, path, own, view)
        elif not is_for_all:
            text = (
                "must be set, because the rule would receive requests of other tenants. Set a host"
            )
            yield RejectionProblem(_RULE_NAME, path, text)
    yield from _find_tls_problems(spec, own, view, is_for_all=is_for_all)


def _find_tls_problems(
    spec: Mapping[str, Any], own: HostHolder | None, view: TenantView, *, is_for_all: bool
) -> Iterator[RejectionProblem]:
    """Yield a problem for each host of a certificate that is no host of a rule.

    A rule without a host, where the policy allows it, has every host that the tenant may have.
    """
    rules = as_mappings(spec.get("rules"))
    in_rules = {str(rule.get("host") or "").lower() for rule in rules}
    has_any_host = is_for_all and (not rules or "" in in_rules)
    for number, item in enumerate(as_mappings(spec.get("tls"))):
        for index, host in enumerate(as_strings(item.get("hosts"))):
            where = f"spec.tls[{number}].hosts[{index}]"
            if host.lower() not in in_rules and not has_any_host:
                text = f"{host[:MAX_LENGTH]} is no host of a rule. Add a rule with this host"
                yield RejectionProblem(_RULE_NAME, where, text)
            else:
                yield from find_host_problems(host.lower(), where, own, view)


def find_host_problems(
    host: str, path: str, own: HostHolder | None, view: TenantView
) -> Iterator[RejectionProblem]:
    """Yield a problem if a host is not offered, or belongs to another tenant."""
    offered = [
        each.lower().removeprefix(_WILDCARD_PREFIX) for each in view.policy.network.ingress_hosts
    ]
    inside = host.removeprefix(_WILDCARD_PREFIX)
    if any(inside == each or inside.endswith(f".{each}") for each in offered):
        yield from _find_taken_problems(host, path, own, view)
    elif offered:
        text = f"{host} is not offered to this cluster. Use one in {' or '.join(offered)}"
        yield RejectionProblem(_RULE_NAME, path, text)
    elif host.startswith(_WILDCARD_PREFIX):
        text = f"{host} would match hosts of other tenants. List each host"
        yield RejectionProblem(_RULE_NAME, path, text)
    else:
        yield from _find_taken_problems(host, path, own, view)


def _find_taken_problems(
    host: str, path: str, own: HostHolder | None, view: TenantView
) -> Iterator[RejectionProblem]:
    if any(_is_older_than_own(entry, host, own, view) for entry in _iterate_foreign(host, view)):
        text = (
            f"{host} is used by another Ingress or route. Use another host, or contact your"
            " platform administrator"
        )
        yield RejectionProblem("host-taken", path, text)


def _iterate_foreign(host: str, view: TenantView) -> Iterator[Entry]:
    """Yield the objects of the super cluster that have a host and are not the tenant's."""
    ingresses = (view.super_stores.get(kind) for kind in (INGRESS, FOREIGN_INGRESS))
    for store in (*ingresses, *view.get_host_stores().values()):
        for key in _iterate_matching_hosts(host) if store is not None else ():
            for entry in store.index(BY_HOST_INDEX, key) if store is not None else ():
                if _get_tenant(entry, view) != view.tenant.uid:
                    yield entry


def _get_tenant(entry: Entry, view: TenantView) -> str:
    """Return the tenant of an object with hosts. Empty if it belongs to no tenant.

    An object that a controller creates in a super namespace belongs to the tenant of that
    namespace.
    """
    spaces = view.super_stores.get("Namespace")
    space = spaces.get("", entry.namespace) if spaces is not None else None
    for found in (entry, space):
        owner = ownership.read_owner({"annotations": found.annotations}) if found else None
        if owner is not None:
            return owner.vc_uid
    return ""


def _is_older_than_own(entry: Entry, host: str, own: HostHolder | None, view: TenantView) -> bool:
    """Return whether another owner's object had a host before the tenant's.

    An object of the super cluster itself always has precedence.
    """
    if own is None or host not in own.hosts or not _get_tenant(entry, view):
        return True
    return _rank_by_age(entry) < _rank_by_age(own.entry)


def _rank_by_age(entry: Entry) -> tuple[str, str]:
    return (str(entry.decode()["metadata"].get("creationTimestamp", "")), entry.uid)


def _get_twin(metadata: Mapping[str, Any], view: TenantView) -> HostHolder | None:
    store = view.super_stores.get(INGRESS)
    place = view.get_super_namespace(metadata["namespace"])
    twin = store.get(place, metadata["name"]) if store is not None else None
    return HostHolder(twin, index_by_host(twin)) if twin is not None else None
