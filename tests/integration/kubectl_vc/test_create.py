"""`kubectl vc create`: the way to a kubeconfig, and every way not to get there."""

import re
import signal
import stat

import pytest

from kubectl_vc.client import waiting
from kubeio import errors
from tenancy.resources import (
    CLUSTER_VERSIONS,
    NAMESPACES,
    VIRTUAL_CLUSTERS,
    Resource,
)
from tests.integration.kubectl_vc.conftest import VERSION, UserTerminal
from tests.support.eventually import eventually
from tests.support.names import fresh_name

WELL = ("True", "Ready", "well")
ADMISSION = "admissionregistration.k8s.io"
VALIDATING_POLICIES = Resource(
    ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False
)
VALIDATING_BINDINGS = Resource(
    *(ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
    namespaced=False,
)
POLICY = {
    "apiVersion": f"{ADMISSION}/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "refuses-tenants"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": ["tenancy.x-k8s.io"],
                    "apiVersions": ["*"],
                    "operations": ["CREATE"],
                    "resources": ["virtualclusters"],
                }
            ]
        },
        # A dry run passes, as it would while a quota still has room.
        "validations": [{"expression": "request.dryRun", "message": "no more tenants here"}],
    },
}
BINDING = {
    "apiVersion": f"{ADMISSION}/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "spec": {
        "policyName": "refuses-tenants",
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": {"matchLabels": {"refuses": "tenants"}}},
    },
}


def version(name: str, **spec) -> dict:
    return {
        "apiVersion": CLUSTER_VERSIONS.api_version,
        "kind": "ClusterVersion",
        "metadata": {"name": name},
        "spec": spec or {"kubernetesVersion": "1.36"},
    }


async def finish(desk: UserTerminal, name: str = "web") -> bytes:
    """Do what the manager does until a tenant is ready."""
    await desk.report(name, EtcdReady=WELL)
    await desk.report(name, EtcdReady=WELL, APIServerReady=WELL)
    content = await desk.hand_out(name)
    every = dict.fromkeys(("EtcdReady", "APIServerReady", "ControllerManagerReady", "Ready"), WELL)
    await desk.report(name, **every)
    return content


async def test_a_manifest_becomes_a_kubeconfig_with_upstreams_lines(desk: UserTerminal):
    running = await desk.start("create", "-f", desk.manifest(desk.virtual_cluster()), "-o", "kc")
    content = await finish(desk)
    done = await running.end()
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "virtualcluster.tenancy.x-k8s.io/web created"
    assert [re.sub(r" \([\d.ms]+\)$", "", line) for line in lines[1:5]] == [
        *("etcd is ready", "apiserver is ready", "controller-manager is ready"),
        f"VirtualCluster {desk.namespace}/web setup successfully",
    ]
    assert lines[5:] == ["use it with: kubectl --kubeconfig kc get namespaces"]
    written = desk.folder / "kc"
    assert written.read_bytes() == content
    assert stat.S_IMODE(written.stat().st_mode) == 0o600


async def test_a_name_and_a_version_are_enough(desk: UserTerminal):
    running = await desk.start(
        *("create", "web", "--cluster-version", VERSION, "-n", desk.namespace, "-o", "kc")
    )
    await finish(desk)
    assert (await running.end()).code == 0
    assert (await desk.fetch())["spec"]["clusterVersionName"] == VERSION


async def test_without_wait_the_object_is_all(desk: UserTerminal):
    done = await desk.run(
        *("create", "web", "--cluster-version", VERSION, "-n", desk.namespace, "--no-wait")
    )
    assert (done.code, done.out) == (0, "virtualcluster.tenancy.x-k8s.io/web created\n")


async def test_the_version_of_the_file_is_made_first_and_taken_as_it_is_next_time(
    desk: UserTerminal,
):
    name = fresh_name("cv")
    for tenant, made in (("one", True), ("two", False)):
        body = desk.virtual_cluster(tenant, clusterVersionName=name)
        done = await desk.run(
            "create", "-f", desk.manifest(body, version(name)), "--no-wait"
        )  # fmt: skip
        assert done.code == 0, done.err
        assert (f"clusterversion.tenancy.x-k8s.io/{name} created" in done.out) is made
    other = desk.manifest(
        desk.virtual_cluster("three", clusterVersionName=name),
        version(name, kubernetesVersion="1.35"),
    )
    done = await desk.run("create", "-f", other, "--no-wait")
    assert done.code == 1
    assert f"ClusterVersion {name} exists already and differs from the one" in done.err
    assert not await desk.is_there("three")


async def test_the_failing_component_is_named_when_the_time_is_over(desk: UserTerminal):
    running = await desk.start(
        *("create", "-f", desk.manifest(desk.virtual_cluster()), "-o", "kc", "--timeout", "4s")
    )
    await desk.report(
        EtcdReady=("False", "ImagePullBackOff", 'Back-off pulling image "etcd:9"'),
        Ready=("False", "NotReady", "etcd is not ready"),
    )
    done = await running.end()
    assert done.code == 4
    assert (
        f"error: VirtualCluster {desk.namespace}/web is not ready after 4.0s: etcd:"
        ' ImagePullBackOff: Back-off pulling image "etcd:9". The VirtualCluster was not removed.'
        f" Watch it with `kubectl vc get web -n {desk.namespace}`, or delete it with"
        f" `kubectl vc delete web -n {desk.namespace}`."
    ) in done.err
    assert desk.files() == {"vc.yaml"}


async def test_what_waiting_cannot_help_ends_at_once(desk: UserTerminal):
    running = await desk.start(
        *("create", "-f", desk.manifest(desk.virtual_cluster()), "-o", "kc", "--timeout", "1m")
    )
    await desk.report(
        Stalled=("True", "NameCollision", "the namespace is somebody else's; rename the tenant")
    )
    done = await running.end()
    assert done.code == 1
    assert "cannot be set up: NameCollision: the namespace is somebody else's" in done.err


@pytest.mark.thorough
async def test_a_failure_that_only_a_person_ends_ends_the_wait_after_its_grace(desk: UserTerminal):
    running = await desk.start(
        *("create", "-f", desk.manifest(desk.virtual_cluster()), "-o", "kc", "--timeout", "5m")
    )
    await desk.report(
        EtcdReady=("False", "ImageNotFound", "etcd:9: not found; push the image"),
        Ready=("False", "ImageNotFound", "etcd:9: not found; push the image"),
    )
    done = await running.end(within=waiting.GRACE_SECONDS + 30)
    assert done.code == 1
    assert "cannot be set up: etcd: ImageNotFound: etcd:9: not found; push the image" in done.err
    assert "Waiting longer does not help. The VirtualCluster was not removed" in done.err
    told = [line for line in done.out.splitlines() if "waiting for etcd: ImageNotFound" in line]
    assert len(told) == 1
    assert desk.files() == {"vc.yaml"}
    assert await desk.is_there()


async def test_a_tenant_without_a_controller_is_reported(desk: UserTerminal):
    done = await desk.run(
        *("create", "-f", desk.manifest(desk.virtual_cluster()), "-o", "kc", "--timeout", "1s")
    )
    assert done.code == 4
    assert (
        "vc-manager, which has not processed it yet. Check that the pod of vc-manager is running"
        in done.err
    )


async def test_one_that_is_deleted_meanwhile_ends_the_wait(desk: UserTerminal):
    running = await desk.start("create", "-f", desk.manifest(desk.virtual_cluster()), "-o", "kc")
    await desk.report(EtcdReady=("False", "Waiting", ""))
    removal = await desk.run("delete", "web", "-n", desk.namespace)
    assert removal.code == 0, removal.err
    done = await running.end()
    assert done.code == 1
    assert "was deleted before it was ready. Create it again" in done.err


async def test_an_interruption_leaves_the_tenant_and_no_file(desk: UserTerminal):
    running = await desk.start("create", "-f", desk.manifest(desk.virtual_cluster()), "-o", "kc")
    await desk.fetch()
    assert running.process.stdout is not None
    await running.process.stdout.readline()
    running.process.send_signal(signal.SIGINT)
    done = await running.end()
    assert done.code == 130
    assert "interrupted. Objects that were created stay" in done.err
    assert f"`kubectl vc kubeconfig web -n {desk.namespace} -o FILE`" in done.err
    assert "Traceback" not in done.err
    assert await desk.is_there()
    assert desk.files() == {"vc.yaml"}


async def test_a_file_that_appears_meanwhile_is_kept(desk: UserTerminal):
    running = await desk.start("create", "-f", desk.manifest(desk.virtual_cluster()), "-o", "kc")
    await desk.fetch()
    (desk.folder / "kc").write_text("mine")
    await finish(desk)
    done = await running.end()
    assert done.code == 1
    assert "kc exists already" in done.err
    assert (desk.folder / "kc").read_text() == "mine"


# Bad input: field, remedy, exit code 1, and nothing half-made.


async def refused(desk: UserTerminal, *documents: dict, flags: tuple[str, ...] = ()) -> str:
    versions = await desk.client.list(CLUSTER_VERSIONS)
    done = await desk.run("create", "-f", desk.manifest(*documents), "-o", "kc", *flags)
    assert (done.code, done.out) == (1, ""), done
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    assert not await desk.is_there()
    assert desk.files() - {"vc.yaml", "nobody", "jane"} == set()
    after = await desk.client.list(CLUSTER_VERSIONS)
    assert len(after["items"]) == len(versions["items"])
    return done.err


async def test_an_unknown_version_is_answered_with_those_that_exist(desk: UserTerminal):
    told = await refused(desk, desk.virtual_cluster(clusterVersionName="v9.99"))
    assert "spec.clusterVersionName: ClusterVersion v9.99 was not found. Choose one of" in told
    assert VERSION in told


async def test_both_shapes_at_once_make_neither_version_nor_tenant(desk: UserTerminal):
    name = fresh_name("cv")
    bundle = {"statefulset": {"a": "b"}}
    both = version(name, kubernetesVersion="1.36", etcd=bundle, apiServer=bundle)
    told = await refused(desk, desk.virtual_cluster(clusterVersionName=name), both)
    assert f'the ClusterVersion "{name}" is invalid: spec: the short form' in told
    assert "Remove one of the two" in told


async def test_a_good_version_is_not_made_for_a_bad_tenant(desk: UserTerminal):
    name = fresh_name("cv")
    told = await refused(
        desk, desk.virtual_cluster(clusterVersionName=name, dns="perhaps"), version(name)
    )
    assert 'the VirtualCluster "web" is invalid: spec.dns' in told
    assert '"managed", "tenant", "none"' in told


async def test_a_version_goes_again_when_its_tenant_cannot_be_made(desk: UserTerminal):
    """Dry runs and the real request are apart: here a quota is used up between them."""
    name = fresh_name("cv")
    await desk.client.create(VALIDATING_POLICIES, POLICY)
    binding = {**BINDING, "metadata": {"name": fresh_name("policy")}}
    await desk.client.create(VALIDATING_BINDINGS, binding)
    space = {"metadata": {"labels": {"refuses": "tenants"}}}
    await desk.client.patch(NAMESPACES, desk.namespace, space)

    async def is_refused() -> bool:
        try:
            await desk.client.create(VIRTUAL_CLUSTERS, desk.virtual_cluster("probe"))
        except errors.ApiError:
            return True
        await desk.client.delete(VIRTUAL_CLUSTERS, "probe", namespace=desk.namespace)
        return False

    await eventually(is_refused, within=20)
    told = await refused(desk, desk.virtual_cluster(clusterVersionName=name), version(name))
    assert "no more tenants here" in told


async def test_an_unknown_field_is_named(desk: UserTerminal):
    told = await refused(desk, desk.virtual_cluster(clusterDomian="x.example"))
    assert 'unknown field "spec.clusterDomian"' in told


async def test_an_over_long_name_is_refused_with_the_number(desk: UserTerminal):
    told = await refused(desk, desk.virtual_cluster("a" * 60))
    assert "the limit is 55. Shorten the name by" in told


async def test_the_flag_and_the_manifest_must_not_contradict(desk: UserTerminal):
    told = await refused(desk, desk.virtual_cluster(), flags=("-n", "default"))
    assert f"metadata.namespace is {desk.namespace}, but -n is default" in told


async def test_who_may_nothing_learns_what_to_ask_for(desk: UserTerminal):
    desk.become("nobody")
    told = await refused(desk, desk.virtual_cluster())
    assert "you (nobody) may not get clusterversions.tenancy.x-k8s.io" in told
    assert "--clusterrole virtual-cluster-versions --user nobody" in told


async def test_a_name_that_is_taken_is_refused(desk: UserTerminal):
    await desk.make()
    done = await desk.run("create", "-f", desk.manifest(desk.virtual_cluster()), "-o", "kc")
    assert done.code == 1
    assert f'"web" already exists in the namespace {desk.namespace}. Choose another' in done.err


async def test_a_server_that_is_away_is_reported(desk: UserTerminal):
    text = (desk.folder / "super").read_text()
    (desk.folder / "super").write_text(text.replace(desk.plane.server, "https://127.0.0.1:9"))
    done = await desk.run("create", "web", "--cluster-version", VERSION)
    assert done.code == 1
    assert "the API server cannot be reached" in done.err


async def test_a_cluster_without_our_kinds_is_informed_to_install_the_chart(
    desk: UserTerminal, tenant_plane
):
    (desk.folder / "super").write_bytes(tenant_plane.kubeconfig())
    for words in (("create", "web", "--cluster-version", VERSION), ("list",), ("get", "web")):
        done = await desk.run(*words)
        assert done.code == 1
        assert "to install the Helm chart virtual-cluster" in done.err


@pytest.mark.parametrize("place", ["nowhere/kc", "."])
async def test_a_place_that_cannot_be_written_is_refused_first(desk: UserTerminal, place):
    done = await desk.run(
        *("create", "web", "--cluster-version", VERSION, "-n", desk.namespace, "-o", place)
    )
    assert done.code == 1
    assert not await desk.is_there()
