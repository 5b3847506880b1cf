"""Checks before an upgrade, and its explanation."""

import pytest

from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.upgrade import verb
from kubectl_vc.upgrade.comparison import FlagChange, ImageChange, VersionDifference
from tenancy.specs import ClusterVersionSpec, ComponentBundle


def version(minor="1.36", **more):
    return ClusterVersionSpec(kubernetes_version=minor, **more)


def bundle(members, *, replicas=None):
    """Return a version in upstream's shape, with the members in etcd's flag or in `replicas`."""
    listed = ",".join(f"etcd-{number}=https://etcd-{number}:2380" for number in range(members))
    args = [] if replicas else [f"--initial-cluster={listed}"]
    spec = {
        "replicas": replicas or 1,
        "template": {"spec": {"containers": [{"name": "etcd", "command": ["etcd"], "args": args}]}},
    }
    etcd = ComponentBundle(statefulset={"spec": spec})
    return ClusterVersionSpec(etcd=etcd, api_server=ComponentBundle(statefulset={}))


@pytest.mark.parametrize(
    ("running", "before", "after", "words"),
    [
        ("v1.35.4", version("1.35"), version(), None),
        ("v1.36.4", version(), version("1.37"), None),
        ("v1.37.2", version("1.37"), version(), "A downgrade loses objects"),
        ("v1.35.4", version("1.35"), version("1.37"), "Upgrade one minor at a time"),
        ("v1.36.4", version(), version("1.36.9"), None),
        ("", version(), version("1.35"), None),
        ("v1.35.4", None, version(), None),
        ("v1.36.4", version(), version("1.35"), "A downgrade loses objects"),
        ("v1.34.1", version("1.34"), version(), "Upgrade one minor at a time"),
        ("v1.36.4", version(), version(replicas=3), None),
        ("v1.36.4", version(replicas=3), version(), None),
        ("v1.36.4", bundle(1), version(replicas=3), None),
        ("v1.36.4", bundle(3), bundle(3), None),
        ("v1.36.4", version(replicas=3), bundle(3), None),
        ("v1.36.4", None, bundle(3), None),
        ("v1.36.4", bundle(1), bundle(3), "asks for 3 etcd members, but this tenant has 1"),
        ("v1.36.4", bundle(3), bundle(0, replicas=1), "create a new VirtualCluster for 1"),
        ("v1.36.4", version(), bundle(3), "Use a ClusterVersion with 1,"),
    ],
)
def test_what_vc_manager_would_refuse_is_refused_first(running, before, after, words):
    body = {"status": {"version": running}}
    if words is None:
        verb.check_upgrade(body, "new", before, after)
        return
    with pytest.raises(CliError) as caught:
        verb.check_upgrade(body, "new", before, after)
    assert str(caught.value).startswith("ClusterVersion new")
    assert words in str(caught.value)
    assert str(caught.value).endswith("Nothing was changed.")
    assert caught.value.exit_code == 1


def test_the_explanation():
    difference = VersionDifference(
        restarts=("etcd", "apiserver"),
        images=(ImageChange("etcd", "3.7.2", "3.7.3"),),
        flags=(
            FlagChange("apiserver", "a", None, "1"),
            FlagChange("apiserver", "b", "1", None),
            FlagChange("apiserver", "c", "1", "2"),
        ),
        fields=("audit",),
    )
    assert list(verb.describe_difference("old", "new", difference)) == [
        "ClusterVersion: old -> new",
        "Restarts, in this order: etcd, apiserver",
        "  etcd: 3.7.2 -> 3.7.3",
        "Changed flags:",
        "  apiserver: --a=1 is added",
        "  apiserver: --b=1 is removed",
        "  apiserver: --c: 1 -> 2",
        "Other changed fields: audit",
    ]


def test_nothing_is_reported_plainly():
    assert list(verb.describe_difference("a", "b", VersionDifference(restarts=()))) == [
        "ClusterVersion: a -> b",
        "Restarts, in this order: nothing",
        "Changed flags: none",
    ]
