"""Host names, shown objects and Services that objects of SyncRules may name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from kubeio.cache.store import Entry, Store, parse_entry
from syncer.model.rejections import ForbiddenObjectError, RejectedError
from syncer.model.tenant_view import TenantView
from syncer.rules.custom import hostnames
from syncer.rules.custom.ruled_kinds import build_ruled_kinds
from syncer.rules.network.ingress_hosts import BY_HOST_INDEX
from tenancy import ownership
from tenancy.ownership import Tenant
from tenancy.sync_rules.specs import SyncRule, parse_sync_rule
from tests.support.syncer.tenant_views import OTHER, TENANT, add, network_view, object_of, policy

PATHS = ("spec.hostnames[]",)
GATEWAYS = {"sourceNamespace": "edge", "tenantNamespace": "gateways"}


def build_rule(kind: str, **spec: Any) -> SyncRule:
    """Return a rule for a kind."""
    resource = {"group": "example.io", "version": "v1", "kind": kind, "plural": f"{kind.lower()}s"}
    body = {"metadata": {"name": f"{kind.lower()}s"}, "spec": {"resource": resource, **spec}}
    return parse_sync_rule(body)


ROUTES = build_rule(
    "Route",
    direction="Down",
    hostnames=PATHS,
    references=[
        {"path": "spec.parent", "kinds": ["Gateway"]},
        {"path": "spec.backends[]", "kinds": ["Service"]},
    ],
)
SHOWN = build_rule(
    "Gateway",
    direction="Mirror",
    fields=["spec.x"],
    mirror=GATEWAYS,
    selector={"matchLabels": {"shared": "true"}},
)


def build_view(
    copies: Store | None = None, foreign: Store | None = None, **network: Any
) -> TenantView:
    """Return a view with the caches of routes and with two Gateways, one of them shown."""
    stores: Mapping[str, Store] = {
        "Route": copies or build_store(),
        "Route of no tenant": foreign or build_store(),
    }
    gateways = Store()
    add(gateways, "shared", namespace="edge", labels={"shared": "true"})
    add(gateways, "hidden", namespace="edge")

    def get_source(kind: str, namespace: str, name: str) -> Entry | None:
        return gateways.get(namespace, name) if kind == "Gateway" else None

    return network_view(
        policy=policy(network=network),
        get_host_stores=lambda: stores,
        get_shown_source=get_source,
    )


def build_store() -> Store:
    """Return a cache of routes."""
    return Store({BY_HOST_INDEX: hostnames.build_index(PATHS)})


def put_route(store: Store, host: str, of: Tenant | None, *, since: str = "05") -> None:
    """Have a route in the super cluster, of a tenant or of none."""
    annotations = ownership.build_owner_annotations(of, "web", "u") if of is not None else {}
    metadata = {
        "name": "x",
        "namespace": f"{of.root}-web" if of is not None else "shop",
        "uid": of.uid if of is not None else "own",
        "creationTimestamp": f"2026-01-{since}T00:00:00Z",
        "annotations": annotations,
    }
    body = {"metadata": metadata, "spec": {"hostnames": [host]}}
    store.put(parse_entry(orjson.dumps(body)), live=True)


def build(view: TenantView, *hosts: Any, **spec: Any) -> dict[str, Any]:
    """Return the copy of a route."""
    row = build_ruled_kinds([ROUTES, SHOWN], TENANT).down["Route"]
    return row.build(object_of("Route", spec={"hostnames": list(hosts), **spec}), view)


def refuse(error: type[RejectedError], view: TenantView, *hosts: Any, **spec: Any) -> list[str]:
    """Return the rules that a route is refused by."""
    with pytest.raises(error) as found:
        build(view, *hosts, **spec)
    assert type(found.value) is error
    return [each.rule for each in found.value.problems]


def test_a_free_host_passes():
    assert build(build_view(), "shop.example")["spec"] == {"hostnames": ["shop.example"]}


@pytest.mark.parametrize(
    ("hosts", "network", "rule"),
    [
        ([], {}, "ingress-host"),
        (["*.example"], {}, "ingress-host"),
        (["shop.example"], {"ingressHosts": ["team.example"]}, "ingress-host"),
        (["shop.team.example"], {"ingressHosts": ["team.example"]}, ""),
        (["*.team.example"], {"ingressHosts": ["team.example"]}, ""),
        ([], {"catchAllIngresses": "Allow"}, ""),
    ],
)
def test_hosts_are_judged_by_the_policy_of_ingresses(hosts, network, rule):
    view = build_view(**network)
    if rule:
        assert refuse(ForbiddenObjectError, view, *hosts) == [rule]
    else:
        assert build(view, *hosts)["spec"].get("hostnames", []) == hosts


@pytest.mark.parametrize(
    ("hosts", "rule"),
    [([7], "malformed"), (["a" * 254], "malformed"), (["a.example"] * 501, "too-large")],
)
def test_hosts_that_no_api_would_take(hosts, rule):
    assert set(refuse(RejectedError, build_view(), *hosts)) == {rule}


def test_a_host_belongs_to_the_oldest_object_that_names_it():
    copies = build_store()
    put_route(copies, "Shop.example", OTHER)
    assert refuse(ForbiddenObjectError, build_view(copies), "shop.example") == ["host-taken"]
    put_route(copies, "shop.example", TENANT, since="04")
    assert build(build_view(copies), "shop.example")
    put_route(copies, "shop.example", TENANT, since="06")
    assert refuse(ForbiddenObjectError, build_view(copies), "shop.example") == ["host-taken"]


def test_the_super_cluster_has_precedence():
    copies, foreign = build_store(), build_store()
    put_route(foreign, "*.example", None)
    put_route(copies, "shop.example", TENANT, since="01")
    view = build_view(copies, foreign)
    assert refuse(ForbiddenObjectError, view, "shop.example") == ["host-taken"]


@pytest.mark.parametrize(
    ("name", "error"), [("hidden", ForbiddenObjectError), ("gone", RejectedError)]
)
def test_only_a_shown_object_can_be_named(name, error):
    view = build_view()
    twin = build(view, "a.example", parent={"name": "shared", "namespace": "gateways"})
    assert twin["spec"]["parent"] == {"name": "shared", "namespace": "edge"}
    parent = {"name": name, "namespace": "gateways"}
    assert refuse(error, view, "a.example", parent=parent) == ["sync-rule-reference"]


def test_an_external_name_is_no_backend_unless_the_policy_allows_it():
    for network, is_allowed in (({}, False), ({"externalNameBackends": "Allow"}, True)):
        view = build_view(**network)
        add(view.stores["Service"], "db", namespace="other", spec={"type": "ExternalName"})
        backends = [{"name": "db", "namespace": "other"}]
        if is_allowed:
            assert build(view, "a.example", backends=backends)
        else:
            rules = refuse(ForbiddenObjectError, view, "a.example", backends=backends)
            assert rules == ["sync-rule-reference"]


def test_an_index_follows_a_changed_rule():
    store = Store()
    put_route(store, "Shop.example", OTHER)
    store.set_index(BY_HOST_INDEX, hostnames.build_index(()))
    assert not store.list_index_values(BY_HOST_INDEX)
    store.set_index(BY_HOST_INDEX, hostnames.build_index(PATHS))
    assert store.list_index_values(BY_HOST_INDEX) == ("shop.example",)
    (entry,) = store.index(BY_HOST_INDEX, "shop.example")
    store.discard(entry, live=True)
    assert not store.index(BY_HOST_INDEX, "shop.example")
