import pytest
import yaml

from clusterversions import catalog

MINORS = catalog.list_minors()


def test_minors_are_ordered_as_numbers():
    assert tuple(sorted(MINORS, key=lambda m: [int(part) for part in m.split(".")])) == MINORS
    assert {"1.35", "1.36", "1.37"} <= set(MINORS)


def test_the_default_minor_is_known_and_can_be_older_than_the_newest():
    assert catalog.DEFAULT_MINOR in MINORS
    assert catalog.DEFAULT_MINOR == "1.36"


def test_an_unknown_minor_names_the_known_ones():
    with pytest.raises(catalog.UnknownMinorError, match=r"1\.36"):
        catalog.get_versions("9.99")


@pytest.mark.parametrize("minor", MINORS)
def test_the_versions_belong_to_the_minor(minor: str):
    assert catalog.get_versions(minor).kubernetes.startswith(f"{minor}.")


@pytest.mark.parametrize("minor", MINORS)
def test_each_controller_has_one_verdict_and_a_reason(minor: str):
    rows = catalog.list_controllers(minor)
    assert len({row.name for row in rows}) == len(rows)
    assert [row.name for row in rows] == sorted(row.name for row in rows)
    assert all(row.reason.strip() for row in rows)


def test_a_controller_belongs_to_the_minors_that_have_it():
    added = {"podgroup-protection-controller", "resourcepoolstatusrequest-controller"}
    older, newer = (
        {row.name for row in catalog.list_controllers(each)} for each in ("1.35", "1.36")
    )
    assert newer - older == added
    assert older < newer


CLOUD = {"cloud-node-lifecycle-controller", "node-route-controller", "service-lb-controller"}
"""Controllers of clouds, which Kubernetes 1.37 lacks. The program ends if a flag names one."""


def test_kubernetes_1_37_has_no_controllers_of_clouds():
    older, newer = (
        {row.name for row in catalog.list_controllers(each)} for each in ("1.36", "1.37")
    )
    assert older - newer == CLOUD
    assert newer < older
    assert not any(name in catalog.build_controllers_flag("1.37") for name in CLOUD)


@pytest.mark.parametrize("minor", MINORS)
def test_controllers_that_would_harm_a_tenant_are_off(minor: str):
    off = {row.name for row in catalog.list_controllers(minor) if not row.is_enabled}
    assert off >= {
        "node-ipam-controller",
        "node-lifecycle-controller",
        "persistentvolume-attach-detach-controller",
        "persistentvolume-binder-controller",
        "persistentvolume-expander-controller",
        "ttl-controller",
    }
    assert (off >= CLOUD) is (minor in ("1.35", "1.36"))
    on = {row.name for row in catalog.list_controllers(minor) if row.is_enabled}
    assert on >= {
        "disruption-controller",
        "endpointslice-controller",
        "ephemeral-volume-controller",
        "pod-garbage-collector-controller",
        "taint-eviction-controller",
    }


@pytest.mark.parametrize("minor", MINORS)
def test_the_flag_names_only_what_differs_from_the_default(minor: str):
    words = catalog.build_controllers_flag(minor).split(",")
    assert words[0] == "*"
    rows = {row.name: row for row in catalog.list_controllers(minor)}
    assert {word[1:] for word in words[1:] if word.startswith("-")} == {
        name for name, row in rows.items() if row.by_default and not row.is_enabled
    }
    assert {word for word in words[1:] if not word.startswith("-")} == {
        name for name, row in rows.items() if row.is_enabled and not row.by_default
    }


def test_the_sample_is_a_cluster_version_of_upstreams_shape():
    sample = yaml.safe_load(catalog.read_sample("upstream-shape"))
    assert sample["kind"] == "ClusterVersion"
    assert set(sample["spec"]) == {"etcd", "apiServer", "controllerManager"}


@pytest.mark.parametrize(
    ("version", "minor"),
    [
        *(("1.36", (1, 36)), ("v1.36.4", (1, 36)), ("v1.36.4+k3s1", (1, 36))),
        *(("v1.36.4-rc.1+abc", (1, 36)), ("v1.10.0", (1, 10))),
        *(("", None), ("unknown", None), ("1", None), ("v1.x", None), ("1.-3", None)),
        *(("1.\u0663\u0666", None), ("1.999999", None)),
    ],
)
def test_a_minor_is_read_from_any_version(version, minor):
    assert catalog.parse_minor(version) == minor
