import dataclasses

import pytest

from kubeio.cache.store import Store
from tenancy import wellknown
from tests.support.syncer.tenant_views import add, policy, view

SUPER_KINDS = ("Node", "Pod", "StorageClass")


@pytest.fixture
def tenant():
    return dataclasses.replace(view(), super_stores={kind: Store() for kind in SUPER_KINDS})


@pytest.mark.parametrize(
    ("place", "spec", "is_provided"),
    [
        (("default", "kubernetes"), {}, True),
        (("web", "kubernetes"), {}, False),
        (("kube-system", "kube-dns"), {"dns": "managed"}, True),
        (("kube-system", "kube-dns"), {"dns": "none"}, False),
        (("kube-system", "metrics-server"), {"metrics": "managed"}, True),
        (("kube-system", "metrics-server"), {"metrics": "none"}, False),
        (("web", "web"), {}, False),
    ],
)
def test_service_of_the_root_namespace_is_provided(place, spec, is_provided):
    assert view(**spec).is_provided_service(*place) is is_provided


@pytest.mark.parametrize(
    ("recorded", "in_super", "in_tenant", "is_shown"),
    [
        ("n-uid", True, True, True),
        ("of an earlier node", True, True, False),
        (None, True, True, False),
        ("n-uid", False, True, False),
        ("n-uid", True, False, False),
    ],
    ids=["shown", "an earlier node", "made by the tenant", "super node gone", "not shown"],
)
def test_node_is_shown_with_the_uid_of_its_super_node(
    tenant, recorded, in_super, in_tenant, is_shown
):
    if in_super:
        add(tenant.super_stores["Node"], "n")
    if in_tenant:
        annotations = {} if recorded is None else {wellknown.UID: recorded}
        add(tenant.stores["Node"], "n", annotations=annotations)
    assert tenant.has_node("n") is is_shown
    assert set(tenant.list_shown_nodes()) == ({"n"} if is_shown else set())


def test_view_without_super_caches_has_nothing_of_the_super_cluster():
    bare = view()
    assert list(bare.list_shown_nodes()) == []
    assert bare.list_super_pods("web") == []
    assert not bare.has_class("StorageClass", "fast")


def test_twins_are_those_of_the_super_namespace(tenant):
    pods = tenant.super_stores["Pod"]
    add(pods, "mine", namespace=tenant.get_super_namespace("web"))
    add(pods, "db", namespace=tenant.get_super_namespace("db"))
    add(pods, "foreign", namespace="web")
    assert [each.name for each in tenant.list_super_pods("web")] == ["mine"]


@pytest.mark.parametrize(
    ("selected", "is_shown"),
    [(["fast"], True), (["*"], True), (["slow"], False)],
    ids=["named", "all", "another one"],
)
def test_policy_selects_the_shown_classes(tenant, selected, is_shown):
    rules = policy(sync={"storageClasses": {"names": selected}})
    tenant = dataclasses.replace(tenant, policy=rules)
    add(tenant.super_stores["StorageClass"], "fast")
    assert tenant.has_class("StorageClass", "fast")
    assert tenant.shows_class("StorageClass", "fast") is is_shown
    assert not tenant.has_class("StorageClass", "absent")
    assert not tenant.shows_class("StorageClass", "absent")


def test_labels_of_namespaces(tenant):
    add(tenant.stores["Namespace"], "web", labels={"team": "a"})
    add(tenant.stores["Namespace"], "db")
    assert tenant.list_namespace_labels() == {"web": {"team": "a"}, "db": {}}
