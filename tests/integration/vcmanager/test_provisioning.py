"""From a VirtualCluster to a running control plane, against a real API server."""

import asyncio
import copy
import time

import pytest
import yaml

from clusterversions import catalog
from kubeio import errors
from kubeio.controller.worker import RequeueAfter
from tenancy import resources, wellknown
from tests.integration.vcmanager.conftest import ManagerStage, cluster_version
from tests.support.controlplane import LocalControlPlane
from tests.support.eventually import eventually
from vcmanager.pki import bundles
from vcmanager.plan import tenant_objects
from vcmanager.runtime import tenant_watch
from vcmanager.runtime.context import TenantClients

COMPONENTS = (
    "CertificatesReady",
    "EtcdReady",
    "APIServerReady",
    "ControllerManagerReady",
    "DNSReady",
)


async def test_everything_is_made_and_the_tenant_becomes_ready(stage: ManagerStage):
    cluster = await stage.declare()
    await stage.bring_up(cluster)
    status = (await stage.fresh(cluster))["status"]
    assert status["phase"] == "Running"
    assert status["reason"] == "TenantControlPlaneRunning"
    assert status["clusterNamespace"] == stage.root(cluster)
    assert status["observedGeneration"] == 1
    assert status["version"].startswith("v1.36.")
    conditions = {each["type"]: each["status"] for each in status["conditions"]}
    assert conditions == dict.fromkeys([*COMPONENTS, "ControlPlaneUpToDate", "Ready"], "True")
    assert await stage.names_of(resources.STATEFUL_SETS, cluster) == {
        "etcd",
        "apiserver",
        "controller-manager",
    }
    assert await stage.names_of(resources.DEPLOYMENTS, cluster) == {"coredns"}
    assert await stage.names_of(resources.SERVICES, cluster) == {
        "kubernetes",
        "kube-dns",
        "apiserver-svc",
        "etcd",
        "etcd-client",
    }
    assert await stage.names_of(resources.SECRETS, cluster) == {
        "root-ca",
        "client-authority",
        "etcd-authority",
        "front-proxy-authority",
        "serviceaccount-rsa",
        "apiserver-ca",
        "apiserver-etcd-client",
        "apiserver-kubelet-client",
        "etcd-ca",
        "front-proxy-ca",
        "admin-kubeconfig",
        "syncer-kubeconfig",
        "manager-kubeconfig",
        "controller-manager-kubeconfig",
        "coredns-kubeconfig",
    }


async def test_three_replicas_have_budgets_and_a_second_look_writes_none(stage: ManagerStage):
    version = cluster_version(
        "three", kubernetesVersion="1.36", serviceType="ClusterIP", replicas=3
    )
    await stage.admin.apply(resources.CLUSTER_VERSIONS, version, field_manager="tests")
    cluster = await stage.declare(clusterVersionName="three")
    await stage.work(cluster, times=2)
    page = await stage.admin.list(resources.POD_DISRUPTION_BUDGETS, namespace=stage.root(cluster))
    assert {each["metadata"]["name"] for each in page["items"]} == {"etcd", "apiserver"}
    assert [each["spec"]["maxUnavailable"] for each in page["items"]] == [1, 1]
    assert [each["metadata"]["generation"] for each in page["items"]] == [1, 1]


async def test_a_second_look_writes_nothing(stage: ManagerStage):
    cluster = await stage.declare()
    await stage.bring_up(cluster)

    async def revisions():
        found = [(await stage.fresh(cluster))["metadata"]["resourceVersion"]]
        for resource in (
            resources.SECRETS,
            resources.CONFIG_MAPS,
            resources.SERVICES,
            resources.STATEFUL_SETS,
            resources.DEPLOYMENTS,
            resources.NETWORK_POLICIES,
        ):
            page = await stage.admin.list(resource, namespace=stage.root(cluster))
            found += [each["metadata"]["resourceVersion"] for each in page["items"]]
        return found

    await stage.work(cluster)
    before = await revisions()
    verdict = await stage.work(cluster)
    assert isinstance(verdict, RequeueAfter)
    assert verdict.after > 60
    assert await revisions() == before


async def test_services_lead_to_what_is_not_ready_until_the_tenant_is_used(stage: ManagerStage):
    cluster = await stage.declare()
    await stage.work(cluster)
    root = stage.root(cluster)

    async def early() -> set[str]:
        page = await stage.admin.list(resources.SERVICES, namespace=root)
        return {
            each["metadata"]["name"]
            for each in page["items"]
            if each["spec"].get("publishNotReadyAddresses")
        }

    assert await early() == {"etcd", "etcd-client", "apiserver-svc", "kubernetes"}
    await stage.bring_up(cluster)
    await stage.work(cluster)
    assert await early() == {"etcd"}


async def test_what_another_writer_changes_or_deletes_comes_back(stage: ManagerStage):
    cluster = await stage.declare()
    await stage.bring_up(cluster)
    root = stage.root(cluster)
    await stage.admin.patch(
        resources.STATEFUL_SETS, "apiserver", {"spec": {"replicas": 0}}, namespace=root
    )
    await stage.admin.delete(resources.SERVICES, "etcd", namespace=root)
    await stage.admin.delete(resources.CONFIG_MAPS, "trust", namespace=root)
    opened = {"spec": {"ingress": [{}]}}
    policies = resources.NETWORK_POLICIES
    for name in ("isolation", "etcd"):
        await stage.admin.patch(policies, name, opened, namespace=root)
    await stage.admin.delete(policies, "apiserver", namespace=root)
    await stage.work(cluster)
    for name in ("isolation", "etcd"):
        policy = await stage.admin.get(policies, name, namespace=root)
        assert policy["spec"].get("ingress") != [{}], name
    assert "apiserver" in await stage.names_of(policies, cluster)
    restored = await stage.admin.get(resources.STATEFUL_SETS, "apiserver", namespace=root)
    assert restored["spec"]["replicas"] == 1
    assert "etcd" in await stage.names_of(resources.SERVICES, cluster)
    assert "trust" in await stage.names_of(resources.CONFIG_MAPS, cluster)


async def test_components_start_in_order(stage: ManagerStage):
    cluster = await stage.declare()
    await stage.work(cluster, times=2)
    assert await stage.names_of(resources.STATEFUL_SETS, cluster) == {"etcd"}

    async def etcd_pods():
        await stage.run_pods(cluster)
        page = await stage.admin.list(resources.PODS, namespace=stage.root(cluster))
        return [each for each in page["items"] if each["status"].get("containerStatuses")]

    await eventually(etcd_pods)
    await stage.work(cluster)
    assert await stage.names_of(resources.STATEFUL_SETS, cluster) == {"etcd", "apiserver"}
    assert await stage.names_of(resources.DEPLOYMENTS, cluster) == set()


async def test_the_root_namespace_reports_whose_it_is_and_admits_only_restricted_pods(
    stage: ManagerStage,
):
    cluster = await stage.declare()
    await stage.work(cluster)
    root = await stage.admin.get(resources.NAMESPACES, stage.root(cluster))
    labels, annotations = root["metadata"]["labels"], root["metadata"]["annotations"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    for marked in (labels, annotations):
        assert marked[wellknown.VC_UID] == cluster["metadata"]["uid"]
        assert marked[wellknown.CLUSTER] == stage.root(cluster)
    assert annotations[wellknown.ROOT_NAMESPACE] == "true"
    assert annotations[wellknown.PKI_INITIALISED] == "true"


@pytest.mark.parametrize(
    ("spec", "reason", "words"),
    [
        (
            {"clusterVersionName": "nope"},
            "ClusterVersionNotFound",
            "spec.clusterVersionName: ClusterVersion 'nope' does not exist. Use one of",
        ),
        ({"serviceCidr": "10.200.0.0/22"}, "InvalidServiceCidr", "Choose a range inside it"),
        ({"serviceCidr": "10.96.0.0/30"}, "InvalidServiceCidr", "too small"),
    ],
)
async def test_a_wish_that_cannot_be_granted_makes_nothing(
    stage: ManagerStage, spec, reason, words
):
    cluster = await stage.declare(**spec)
    await stage.work(cluster)
    ready = await stage.condition(cluster, "Ready")
    assert ready is not None
    assert (ready["status"], ready["reason"]) == ("False", reason)
    assert words in ready["message"]
    stalled = await stage.condition(cluster, "Stalled")
    assert stalled is not None
    found = await stage.fresh(cluster)
    assert found["status"]["phase"] == "Error"
    assert "finalizers" not in found["metadata"]
    with pytest.raises(errors.NotFound):
        await stage.admin.get(resources.NAMESPACES, stage.root(cluster))


async def test_a_refusal_is_an_event_on_the_virtual_cluster(stage: ManagerStage):
    cluster = await stage.declare(clusterVersionName="nope")
    await stage.work(cluster)
    name = cluster["metadata"]["name"]

    async def told():
        page = await stage.admin.list(
            resources.EVENTS, namespace="default", field_selector=f"involvedObject.name={name}"
        )
        return [(each["type"], each["reason"]) for each in page["items"]]

    found = await eventually(told)
    assert found == [("Warning", "ClusterVersionNotFound")]


async def test_a_refused_wish_is_granted_when_it_is_mended(stage: ManagerStage):
    cluster = await stage.declare(clusterVersionName="later")
    await stage.work(cluster)
    await stage.admin.create(resources.CLUSTER_VERSIONS, cluster_version("later"))
    await stage.bring_up(cluster)
    assert await stage.condition(cluster, "Stalled") is None
    assert (await stage.fresh(cluster))["status"]["phase"] == "Running"


async def pick(stage: ManagerStage, cluster, version: str) -> None:
    """Name another ClusterVersion."""
    metadata = cluster["metadata"]
    await stage.admin.patch(
        resources.VIRTUAL_CLUSTERS,
        metadata["name"],
        {"spec": {"clusterVersionName": version}},
        namespace=metadata["namespace"],
    )


async def test_a_downgrade_is_refused_at_each_look_and_taken_back(stage: ManagerStage):
    cluster = await stage.declare()
    await stage.bring_up(cluster)
    before = (await stage.fresh(cluster))["status"]["version"]
    name = f"older-than-{cluster['metadata']['name']}"
    await stage.admin.create(
        resources.CLUSTER_VERSIONS, cluster_version(name, kubernetesVersion="1.35")
    )
    await pick(stage, cluster, name)
    for _ in range(2):
        await stage.work(cluster)
        ready = await stage.condition(cluster, "Ready")
        assert ready is not None
        assert (ready["status"], ready["reason"]) == ("False", "VersionSkew")
        assert f"older than {before}" in ready["message"]
    await pick(stage, cluster, cluster["spec"]["clusterVersionName"])
    await stage.work(cluster)
    ready = await stage.condition(cluster, "Ready")
    assert ready is not None
    assert ready["status"] == "True"


async def test_a_name_that_is_too_long_is_named(stage: ManagerStage):
    cluster = await stage.declare(name="x" * 60)
    await stage.work(cluster)
    ready = await stage.condition(cluster, "Ready")
    assert ready is not None
    assert ready["reason"] == "InvalidName"
    assert "the limit is 55. Shorten the name by 12" in ready["message"]
    await stage.admin.delete(
        resources.VIRTUAL_CLUSTERS, cluster["metadata"]["name"], namespace="default"
    )


async def test_a_namespace_of_another_owner_is_left_alone(stage: ManagerStage):
    cluster = await stage.declare()
    root = stage.root(cluster)
    await stage.admin.create(resources.NAMESPACES, {"metadata": {"name": root}})
    before = (await stage.admin.get(resources.NAMESPACES, root))["metadata"]["resourceVersion"]
    await stage.work(cluster, times=2)
    ready = await stage.condition(cluster, "Ready")
    assert ready is not None
    assert ready["reason"] == "NameCollision"
    assert root in ready["message"]
    await stage.tear_down(cluster)
    after = (await stage.admin.get(resources.NAMESPACES, root))["metadata"]["resourceVersion"]
    assert after == before
    assert await stage.names_of(resources.SECRETS, cluster) == set()


async def test_upstreams_shape_becomes_ready(stage: ManagerStage):
    sample = yaml.safe_load(catalog.read_sample("upstream-shape"))
    await stage.admin.create(resources.CLUSTER_VERSIONS, sample, validation="Strict")
    stored = await stage.admin.get(resources.CLUSTER_VERSIONS, sample["metadata"]["name"])
    assert stored["spec"] == sample["spec"], "it must pass the API unchanged"
    cluster = await stage.declare(clusterVersionName=sample["metadata"]["name"])
    await stage.bring_up(cluster)
    assert await stage.names_of(resources.SECRETS, cluster) >= {
        "root-ca-etcd",
        "root-ca-apiserver",
        "root-ca-controller-manager",
    }
    ephemeral = await stage.condition(cluster, "StoreEphemeral")
    assert ephemeral is not None
    assert ephemeral["status"] == "True"
    root = await stage.admin.get(resources.NAMESPACES, stage.root(cluster))
    assert root["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "baseline"


@pytest.mark.parametrize(
    ("number", "break_it", "words"),
    [
        (
            1,
            lambda spec: spec["etcd"]["statefulset"].pop("kind"),
            ["etcd.statefulset", "StatefulSet"],
        ),
        (
            2,
            lambda spec: spec["apiServer"]["statefulset"]["spec"]["template"]["spec"]["containers"][
                0
            ].update(nonsense=1),
            ["apiServer.statefulset", "nonsense"],
        ),
        (
            3,
            lambda spec: spec["apiServer"]["service"]["spec"].update(type="Nonsense"),
            ["apiServer.service", "Nonsense"],
        ),
        (
            4,
            lambda spec: spec["etcd"]["statefulset"]["spec"]["template"]["spec"]["containers"][
                0
            ].pop("name"),
            ["etcd.statefulset", "name"],
        ),
    ],
)
async def test_a_malformed_template_makes_nothing_and_is_named(
    stage: ManagerStage, number, break_it, words
):
    sample = yaml.safe_load(catalog.read_sample("upstream-shape"))
    good = copy.deepcopy(sample["spec"])
    sample["metadata"]["name"] = f"broken-{number}"
    break_it(sample["spec"])
    await stage.admin.create(resources.CLUSTER_VERSIONS, sample)
    cluster = await stage.declare(clusterVersionName=sample["metadata"]["name"])
    await stage.work(cluster)
    ready = await stage.condition(cluster, "Ready")
    assert ready is not None
    for word in (sample["metadata"]["name"], *words):
        assert word in ready["message"]
    with pytest.raises(errors.NotFound):
        await stage.admin.get(resources.NAMESPACES, stage.root(cluster))
    sample["spec"] = good
    await stage.admin.apply(resources.CLUSTER_VERSIONS, sample, field_manager="person")
    await stage.work(cluster)
    assert await stage.names_of(resources.SECRETS, cluster)


async def test_a_tenant_that_wants_its_own_dns_gives_ours_back(stage: ManagerStage):
    cluster = await stage.declare()
    await stage.bring_up(cluster)
    await stage.admin.patch(
        resources.VIRTUAL_CLUSTERS,
        cluster["metadata"]["name"],
        {"spec": {"dns": "none"}},
        namespace="default",
    )
    await stage.work(cluster)
    assert await stage.names_of(resources.DEPLOYMENTS, cluster) == set()
    assert "kube-dns" not in await stage.names_of(resources.SERVICES, cluster)
    assert "coredns-kubeconfig" not in await stage.names_of(resources.SECRETS, cluster)
    assert await stage.condition(cluster, "DNSReady") is None


async def test_a_tenant_that_does_not_answer_is_not_ready(stage: ManagerStage):
    cluster = await stage.declare()
    await stage.bring_up(cluster)
    stage.tenants.client = stage.nowhere
    await stage.work(cluster)
    found = await stage.condition(cluster, "APIServerReady")
    assert found is not None
    assert (found["status"], found["reason"]) == ("False", "Unreachable")
    assert (await stage.fresh(cluster))["status"]["phase"] == "Running"


async def test_the_tenant_has_our_objects_inside(stage: ManagerStage):
    cluster = await stage.declare()
    await stage.bring_up(cluster)
    inside = stage.tenants.client
    admins = await inside.get(resources.CLUSTER_ROLE_BINDINGS, "tenancy:admins")
    assert admins["roleRef"]["name"] == "cluster-admin"
    assert [each["name"] for each in admins["subjects"]] == ["tenancy:admins"]
    for name in ("tenancy:syncer", "tenancy:coredns"):
        await inside.get(resources.CLUSTER_ROLES, name)
    await inside.delete(resources.CLUSTER_ROLE_BINDINGS, "tenancy:syncer")
    await stage.work(cluster)
    await inside.get(resources.CLUSTER_ROLE_BINDINGS, "tenancy:syncer")


async def test_what_a_tenant_does_to_our_objects_is_noticed_and_put_back(
    stage: ManagerStage, inside: LocalControlPlane, monkeypatch: pytest.MonkeyPatch
):
    """REL-25."""
    monkeypatch.setattr(tenant_watch, "_BASE_DELAY_SECONDS", 0.01)
    cluster = await stage.declare()
    await stage.bring_up(cluster)
    changed = asyncio.Event()
    async with TenantClients() as tenants:
        client = await tenants.get(
            "uid",
            inside.kubeconfig(),
            "it",
            on_changed=changed.set,
            watched_resources=tenant_objects.BOOTSTRAP_RESOURCES,
        )

        async def is_noticed(value: str) -> bool:
            """Touch the Service again and again: the watch may not stand yet."""
            patch = {"metadata": {"annotations": {"touched": f"{value}-{time.monotonic()}"}}}
            await client.patch(resources.SERVICES, "kube-dns", patch, namespace="kube-system")
            return changed.is_set()

        await eventually(lambda: is_noticed("first"))
        for resource, name, namespace in (
            (resources.SERVICES, "kube-dns", "kube-system"),
            (resources.CLUSTER_ROLES, "tenancy:syncer", ""),
            (resources.CLUSTER_ROLE_BINDINGS, "tenancy:syncer", ""),
        ):
            await asyncio.sleep(0.3)  # what was done before is told
            changed.clear()
            await client.delete(resource, name, namespace=namespace)
            await eventually(changed.is_set)
            await stage.work(cluster)
            await client.get(resource, name, namespace=namespace)
        # An edit is queued as well, and nothing is queued afterwards.
        await asyncio.sleep(0.5)
        changed.clear()
        empty = {"rules": []}
        await client.patch(resources.CLUSTER_ROLES, "tenancy:syncer", empty)
        await eventually(changed.is_set)
        await stage.work(cluster)
        assert (await client.get(resources.CLUSTER_ROLES, "tenancy:syncer"))["rules"]

        async def rests() -> bool:
            """Return whether a round of work changes nothing. What was put back is told late."""
            changed.clear()
            await stage.work(cluster)
            await asyncio.sleep(0.5)
            return not changed.is_set()

        await eventually(rests)


async def test_the_admins_kubeconfig_holds_no_masters_certificate(stage: ManagerStage):
    cluster = await stage.declare()
    await stage.work(cluster)
    secret = await stage.secret(cluster, "admin-kubeconfig")
    assert secret["metadata"]["labels"]["tenancy.x-k8s.io/credential"] == "admin"
    document = yaml.safe_load(bundles.read_data(secret, "admin-kubeconfig"))
    assert "insecure-skip-tls-verify" not in document["clusters"][0]["cluster"]
    assert document["users"][0]["name"] == "admin"


async def test_readers_of_the_kubeconfig_are_bound_and_released(stage: ManagerStage):
    ann = {"kind": "User", "name": "ann"}
    cluster = await stage.declare(kubeconfigReaders=[ann])
    name = cluster["metadata"]["name"]

    async def read() -> set[str]:
        await stage.work(cluster)
        page = await stage.admin.list(resources.ROLE_BINDINGS, namespace=stage.root(cluster))
        return {
            subject["name"]
            for each in page["items"]
            if each["roleRef"]["name"] == wellknown.KUBECONFIG_READER_ROLE
            for subject in each["subjects"]
        }

    async def become(*readers: dict[str, str]) -> set[str]:
        spec = {"spec": {"kubeconfigReaders": list(readers)}}
        await stage.admin.patch(resources.VIRTUAL_CLUSTERS, name, spec, namespace="default")
        return await read()

    assert await read() == {"ann"}
    assert await become(ann, {"kind": "Group", "name": "team-a"}) == {"ann", "team-a"}
    assert await become() == set()
