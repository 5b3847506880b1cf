"""Hosts of Ingresses: no one takes what is another owner's, or everyone's."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kubeio.cache.store import Store, parse_entry
from syncer.handlers import dependents
from syncer.handlers.home_events import HomeEvents
from syncer.model.rejections import ForbiddenObjectError, RejectedError
from syncer.model.tenant_view import TenantView
from syncer.rules.network import ingress_hosts, ingresses
from tenancy import ownership, wellknown
from tenancy.ownership import Tenant
from tests.support.syncer.sessions import SessionWorld, put
from tests.support.syncer.tenant_views import OTHER, TENANT, network_view, object_of, policy

BACKEND = {"service": {"name": "web", "port": {"number": 80}}}
PATHS = {"paths": [{"path": "/", "pathType": "Prefix", "backend": BACKEND}]}


def ingress(*hosts: Any, **spec: Any) -> dict[str, Any]:
    """Return an Ingress of the tenant with a rule for each host."""
    rules = [{"host": host, "http": PATHS} if host else {"http": PATHS} for host in hosts]
    return object_of("Ingress", spec={"rules": rules, **spec})


def seen(**network: Any) -> TenantView:
    """Return a look at a super cluster with Ingresses."""
    view = network_view(policy=policy(network=network))
    indexes = {ingress_hosts.BY_HOST_INDEX: ingress_hosts.index_by_host}
    kinds = (ingress_hosts.INGRESS, ingress_hosts.FOREIGN_INGRESS)
    object.__setattr__(view, "super_stores", {**view.super_stores, "Namespace": Store()})
    view.super_stores.update({kind: Store(indexes) for kind in kinds})  # type: ignore[attr-defined]
    return view


def below(
    view: TenantView, *hosts: str, of: Tenant | None = OTHER, name: str = "x", since: str = "05"
) -> None:
    """Have an Ingress below with some hosts, of a tenant or of no one."""
    space = f"{of.root}-web" if of is not None else "shop"
    metadata = {
        "name": name,
        "namespace": space,
        "uid": f"{space}-{name}",
        "creationTimestamp": f"2026-01-{since}T00:00:00Z",
        "annotations": ownership.build_owner_annotations(of, "web", "u") if of is not None else {},
    }
    kind = ingress_hosts.INGRESS if of is not None else ingress_hosts.FOREIGN_INGRESS
    rules = [{"host": host} for host in hosts]
    put(view.super_stores[kind], {"metadata": metadata, "spec": {"rules": rules}})


def refused(view: TenantView, *hosts: str, **spec: Any) -> str:
    """Return the rule that an Ingress is refused by."""
    with pytest.raises(ForbiddenObjectError) as found:
        ingresses.build_ingress(ingress(*hosts, **spec), view)
    (rule,) = {problem.rule for problem in found.value.problems}
    return rule


@pytest.mark.parametrize("of", [OTHER, None])
@pytest.mark.parametrize(
    ("theirs", "wanted"),
    [
        ("shop.example", "shop.example"),
        ("shop.example", "SHOP.example"),
        ("*.shop.example", "a.shop.example"),
        ("*.shop.example", "a.b.shop.example"),
    ],
)
def test_a_host_that_others_have_is_refused(of, theirs, wanted):
    view = seen()
    below(view, "else.example", theirs, of=of)
    assert refused(view, "own.example", wanted) == "host-taken"
    tls = [{"hosts": ["own.example", wanted], "secretName": "cert"}]
    assert refused(view, "own.example", tls=tls) == "ingress-host"
    assert refused(view, "own.example", wanted, tls=tls) == "host-taken"
    assert ingresses.build_ingress(ingress("own.example", "shop.example.org"), view)


@pytest.mark.parametrize(
    ("hosts", "network", "is_refused"),
    [
        (["own.example"], {}, False),
        (["OWN.example"], {}, False),
        (["victim.example"], {}, True),
        (["own.example", "victim.example"], {}, True),
        (["*.example"], {}, True),
        ([], {}, False),
        (["victim.example"], {"catchAllIngresses": "Allow"}, True),
        (["own.example"], {"ingressHosts": ["example"]}, False),
        (["*.own.example"], {"ingressHosts": ["example"]}, True),
    ],
)
def test_a_host_of_a_certificate_is_a_host_of_a_rule(hosts, network, is_refused):
    """SEC-51: judged like the host of a rule."""
    tls = [{"hosts": hosts, "secretName": "cert"}]
    if is_refused:
        assert refused(seen(**network), "own.example", tls=tls) == "ingress-host"
    else:
        twin = ingresses.build_ingress(ingress("own.example", tls=tls), seen(**network))
        assert twin["spec"]["tls"] == [{"hosts": hosts or ["own.example"], "secretName": "cert"}]


def test_a_certificate_without_hosts_gets_those_of_the_rules():
    view, tls = seen(catchAllIngresses="Allow"), [{"secretName": "cert"}, {"hosts": []}]
    own = ingress("b.example", "a.example", "a.example", None, tls=tls)
    twin = ingresses.build_ingress(own, view)
    assert [item["hosts"] for item in twin["spec"]["tls"]] == [["a.example", "b.example"]] * 2
    assert own["spec"]["tls"] == tls
    twin = ingresses.build_ingress(ingress(None, tls=[{"secretName": "cert"}]), view)
    assert twin["spec"]["tls"] == [{"secretName": "cert"}]


def test_a_certificate_of_a_rule_without_hosts_is_judged_like_a_rule():
    view = seen(catchAllIngresses="Allow", ingressHosts=["own.example"])
    tls = [{"hosts": ["a.own.example"], "secretName": "cert"}]
    assert ingresses.build_ingress(ingress(None, tls=tls), view)
    tls = [{"hosts": ["victim.example"], "secretName": "cert"}]
    assert refused(view, None, tls=tls) == "ingress-host"


def test_hosts_of_the_tenants_own_are_shared_among_its_ingresses():
    view = seen()
    below(view, "shop.example", of=TENANT, name="other")
    twin = ingresses.build_ingress(ingress("shop.example"), view)
    assert [rule["host"] for rule in twin["spec"]["rules"]] == ["shop.example"]


def test_what_a_controller_adds_in_a_namespace_of_the_tenant_is_the_tenants():
    view = seen()
    space = f"{TENANT.root}-web"
    metadata = {"name": "solver", "namespace": space, "uid": "s"}
    rules = [{"host": "shop.example"}]
    put(
        view.super_stores[ingress_hosts.FOREIGN_INGRESS],
        {"metadata": metadata, "spec": {"rules": rules}},
    )
    assert refused(view, "shop.example") == "host-taken"
    marked = {
        "name": space,
        "uid": "n",
        "annotations": ownership.build_owner_annotations(TENANT, "web", "n"),
    }
    put(view.super_stores["Namespace"], {"metadata": marked})
    assert ingresses.build_ingress(ingress("shop.example"), view)


@pytest.mark.parametrize(("since", "is_ours"), [("09", True), ("01", False)])
def test_of_two_at_once_the_first_keeps_the_host(since, is_ours):
    view = seen()
    below(view, "shop.example", of=TENANT)
    below(view, "shop.example", since=since)
    if is_ours:
        assert ingresses.build_ingress(ingress("shop.example"), view)
    else:
        assert refused(view, "shop.example") == "host-taken"


def test_an_old_ingress_takes_no_new_host_from_others():
    view = seen()
    below(view, "own.example", of=TENANT, since="01")
    below(view, "shop.example")
    assert refused(view, "own.example", "shop.example") == "host-taken"


def test_the_super_cluster_has_its_hosts_whoever_came_first():
    view = seen()
    below(view, "shop.example", of=TENANT, since="01")
    below(view, "shop.example", of=None)
    assert refused(view, "shop.example") == "host-taken"


def test_what_is_for_no_one_in_particular_is_refused_unless_the_policy_specifies_so():
    for view in (seen(), network_view()):
        assert refused(view, "own.example", "") == "ingress-host"
        assert refused(view, "own.example", defaultBackend=BACKEND) == "ingress-host"
    open_ = seen(catchAllIngresses="Allow")
    twin = ingresses.build_ingress(ingress("", defaultBackend=BACKEND), open_)
    assert twin["spec"]["defaultBackend"] == BACKEND
    assert "host" not in twin["spec"]["rules"][0]


@pytest.mark.parametrize(
    ("domains", "host", "passes"),
    [
        ([], "shop.example", True),
        ([], "*.shop.example", False),
        ([], "*.example", False),
        (["team.example"], "team.example", True),
        (["team.example"], "shop.team.example", True),
        (["team.example"], "*.team.example", True),
        (["team.example"], "*.shop.team.example", True),
        (["team.example"], "xteam.example", False),
        (["team.example"], "*.example", False),
        (["team.example"], "example", False),
        (["other.example", "team.example"], "shop.team.example", True),
    ],
)
def test_domains_that_the_policy_lists(domains, host, passes):
    view = seen(ingressHosts=domains)
    if passes:
        assert ingresses.build_ingress(ingress(host), view)["spec"]["rules"][0]["host"] == host
    else:
        assert refused(view, host) == "ingress-host"


def test_a_listed_domain_takes_no_host_of_others():
    view = seen(ingressHosts=["team.example"])
    below(view, "shop.team.example")
    assert refused(view, "shop.team.example") == "host-taken"


@pytest.mark.parametrize(
    ("hosts", "rule"),
    [
        ([7], "malformed"),
        ([["a.example"]], "malformed"),
        (["a" * 254], "malformed"),
        (["a.example"] * 501, "too-large"),
    ],
)
def test_hosts_that_no_api_would_take(hosts, rule):
    with pytest.raises(RejectedError) as rejected:
        ingresses.build_ingress(ingress(*hosts), seen())
    assert [problem.rule for problem in rejected.value.problems] == [rule]
    entry = parse_entry(
        orjson.dumps({"metadata": {"name": "x"}, "spec": {"rules": [None, *hosts]}})
    )
    assert ingress_hosts.index_by_host(entry) <= {"a.example"}


@pytest.mark.parametrize(
    ("changed", "woken"),
    [
        ("shop.example", ["exact"]),
        ("a.wide.example", ["wide"]),
        ("*.example", ["exact", "wide"]),
        ("*.com", []),
    ],
)
def test_a_host_that_comes_or_goes_below_enqueues_who_wants_it(changed, woken):
    world = SessionWorld()
    for name, host in (("exact", "shop.example"), ("wide", "*.wide.example")):
        world.tenant_has("Ingress", name, spec={"rules": [{"host": host}]})
    other = {
        "metadata": {
            "name": "x",
            "namespace": "shop",
            "uid": "x",
            "labels": {wellknown.VC_UID: "o"},
        },
        "spec": {"rules": [{"host": changed}]},
    }
    entry = put(Store(), other)
    for old, new in ((None, entry), (entry, None), (entry, entry)):
        before, now = (ingress_hosts.index_by_host(each) if each else set() for each in (old, new))
        dependents.enqueue_users_of_hosts([world.session], frozenset(before ^ now))
        found = set()
        while (key := world.session.queue.take()) is not None:
            world.session.queue.done(key)
            found.add(key.name)
        assert sorted(found) == (woken if old is not new else [])


def test_the_caches_of_the_super_cluster_report_hosts():
    world = SessionWorld()
    HomeEvents(world.super_cluster, {TENANT.uid: world.session}).subscribe()
    world.tenant_has("Ingress", "i", spec={"rules": [{"host": "shop.example"}]})
    for store in (world.super_cluster.other_ingresses, world.super_cluster.stores["Ingress"]):
        body = {"metadata": {"name": "x", "namespace": "shop", "uid": "x"}}
        put(store, {**body, "spec": {"rules": [{"host": "shop.example"}]}})
        key = world.session.queue.take()
        assert key is not None
        assert key.name == "i"
        world.session.queue.done(key)
    with pytest.raises(ForbiddenObjectError):
        ingresses.build_ingress(ingress("shop.example"), world.session.view)
