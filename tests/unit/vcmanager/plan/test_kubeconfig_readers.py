"""Who may fetch the admin kubeconfig of a tenant."""

from tenancy.specs import KubeconfigReader, VirtualClusterSpec
from vcmanager.plan import kubeconfig_readers


def spec(*readers: tuple[str, str]) -> VirtualClusterSpec:
    return VirtualClusterSpec(
        cluster_version_name="v",
        kubeconfig_readers=tuple(
            KubeconfigReader(kind=kind, name=name)  # type: ignore[arg-type]
            for kind, name in readers
        ),
    )


def test_without_readers_there_is_no_binding():
    assert kubeconfig_readers.build_role_bindings(spec()) == []


def test_readers_are_bound_to_the_role_that_gets_one_secret():
    (made,) = kubeconfig_readers.build_role_bindings(spec(("User", "ann"), ("Group", "team-a")))
    assert made["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "virtual-cluster-kubeconfigs",
    }
    assert [(each["kind"], each["name"]) for each in made["subjects"]] == [
        ("User", "ann"),
        ("Group", "team-a"),
    ]
