"""Restarts and changed flags of an upgrade."""

import pytest

from clusterversions import catalog
from kubectl_vc.upgrade.comparison import (
    FlagChange,
    ImageChange,
    compare_versions,
    count_api_servers,
    count_etcd_members,
)
from tenancy.specs import ClusterVersionSpec, ComponentBundle, parse_cluster_version

ALL = ("etcd", "apiserver", "controller-manager", "coredns", "metrics-server")


def version(**spec):
    return parse_cluster_version({"metadata": {"name": "v"}, "spec": spec})


def short(kubernetes="1.36", **spec):
    return version(kubernetesVersion=kubernetes, **spec)


def bundle(*args, image="a:1"):
    container = {"name": "a", "image": image, "command": ["run"], "args": list(args)}
    return {"statefulset": {"spec": {"template": {"spec": {"containers": [container]}}}}}


@pytest.mark.parametrize(
    ("before", "after", "restarts"),
    [
        ({}, {}, ()),
        ({}, {"serviceType": "LoadBalancer"}, ()),
        ({}, {"rollout": {"paused": True}}, ()),
        ({}, {"kubernetes": "1.36.9"}, ("apiserver", "controller-manager")),
        ({}, {"extraArgs": {"etcd": {"quota-backend-bytes": "1"}}}, ("etcd",)),
        ({}, {"extraArgs": {"apiServer": {"event-ttl": "2h"}}}, ("apiserver",)),
        ({}, {"audit": {"level": "Metadata"}}, ("apiserver",)),
        ({}, {"nodeSelector": {"a": "b"}}, ALL),
        ({}, {"resources": {"dns": {"limits": {"memory": "1Gi"}}}}, ("coredns",)),
        (
            {"resources": {"etcd": {"limits": {}}, "controllerManager": {"limits": {}}}},
            {},
            ("etcd", "controller-manager"),
        ),
    ],
)
def test_what_restarts(before, after, restarts):
    assert compare_versions(short(**before), short(**after)).restarts == restarts


@pytest.mark.parametrize("minors", [("1.35", "1.36"), ("1.36", "1.37")])
def test_a_minor_changes_images_and_the_list_of_controllers(minors):
    found = compare_versions(*map(short, minors))
    old, new = (catalog.get_versions(minor).kubernetes for minor in minors)
    assert ImageChange("apiserver", old, new) in found.images
    assert found.restarts[:2] == ("apiserver", "controller-manager")
    lists = [catalog.build_controllers_flag(minor) for minor in minors]
    assert bool(found.flags) is (lists[0] != lists[1])


def test_replicas_restart_the_controller_manager_for_its_leader_election():
    found = compare_versions(short(), short(replicas=3))
    assert found.restarts == ("controller-manager",)
    assert found.flags == (FlagChange("controller-manager", "leader-elect", "false", "true"),)
    assert found.fields == ("replicas",)


@pytest.mark.parametrize(
    ("args", "members"),
    [
        (("--initial-cluster=a=https://a:2380,b=https://b:2380",), 2),
        (("--initial-cluster", "a=https://a:2380,b=https://b:2380,c=https://c:2380"), 3),
        (("--initial-cluster-state=new",), 1),
    ],
)
def test_members_of_a_bundle_are_those_of_its_flag(args, members):
    assert count_etcd_members(version(etcd=bundle(*args), apiServer=bundle())) == members
    assert count_etcd_members(short(replicas=3)) == 3


def test_flags_are_added_changed_and_removed():
    before = short(extraArgs={"apiServer": {"event-ttl": "1h", "v": "2"}})
    after = short(extraArgs={"apiServer": {"event-ttl": "2h", "profiling": "false"}})
    assert compare_versions(before, after).flags == (
        FlagChange("apiserver", "event-ttl", "1h", "2h"),
        FlagChange("apiserver", "profiling", None, "false"),
        FlagChange("apiserver", "v", "2", None),
    )


def test_fields_are_named_as_in_a_manifest():
    after = short(priorityClassName="p", resources={"apiServer": {"limits": {}}})
    fields = compare_versions(short(), after).fields
    assert fields == ("priorityClassName", "resources.apiServer")


def test_bundles_are_compared_by_their_templates():
    before = version(etcd=bundle("--a=1", "-b"), apiServer=bundle())
    after = version(etcd=bundle("--a=2", "--c", image="a:2"), apiServer=bundle())
    found = compare_versions(before, after)
    assert found.restarts == ("etcd",)
    assert found.images == (ImageChange("etcd", "a:1", "a:2"),)
    assert found.flags == (
        FlagChange("etcd", "a", "1", "2"),
        FlagChange("etcd", "c", None, ""),
    )


def test_another_form_restarts_everything():
    bundled = version(etcd=bundle(), apiServer=bundle())
    assert compare_versions(short(), bundled).restarts == ALL


def test_an_unknown_minor_is_an_error():
    with pytest.raises(catalog.UnknownMinorError):
        compare_versions(short(), short("1.99"))


def test_the_number_of_api_servers():
    assert count_api_servers(ClusterVersionSpec(replicas=3)) == 3
    bundle = ComponentBundle(statefulset={"spec": {"replicas": 2}})
    assert count_api_servers(ClusterVersionSpec(api_server=bundle)) == 2
    assert count_api_servers(ClusterVersionSpec(etcd=bundle)) == 1
