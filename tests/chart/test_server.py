"""The chart on a real API server: strictness, rules, policies, upgrades."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kubeio.api.client import Client
from kubeio.errors import Forbidden, Invalid
from tenancy import names
from tenancy.policies import BASELINE_POLICY, parse_tenant_policy
from tenancy.resources import (
    CLUSTER_VERSIONS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    SUPER_CLUSTERS,
    SYNC_RULES,
    TENANT_POLICIES,
    VIRTUAL_CLUSTER_SNAPSHOTS,
    VIRTUAL_CLUSTERS,
    Resource,
)
from tests.chart.conftest import ChartApiServer
from tests.support.bad_fields import schema_fields
from tests.support.bad_fields.code_rows import CODE_ROWS
from tests.support.bad_fields.schema_rows import FORBIDDEN_CHANGES, SCHEMA_ROWS
from tests.support.bad_fields.valid_specs import VALID_SPECS
from tests.support.eventually import eventually
from tests.support.helm import CHART, NAMESPACE, RELEASE, render
from tests.support.names import fresh_name

pytestmark = pytest.mark.integration

UPSTREAM = Path(__file__).parent / "upstream.yaml"
FLOWS = "flowcontrol.apiserver.k8s.io"


@pytest.fixture
async def client(server: ChartApiServer):
    async with Client(server.plane.endpoint) as client:
        yield client


def virtual_cluster(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": VIRTUAL_CLUSTERS.api_version,
        "kind": "VirtualCluster",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterVersionName": "v1.36", **spec},
    }


def cluster_version(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": CLUSTER_VERSIONS.api_version,
        "kind": "ClusterVersion",
        "metadata": {"name": fresh_name("cv")},
        "spec": spec,
    }


async def refused(client: Client, resource: Resource, body: dict[str, Any]) -> str:
    try:
        await client.create(resource, body, validation="Strict", dry_run=True)
    except Invalid as problem:
        return problem.server_message
    raise AssertionError(f"the server took {body}")


def resource_of(body: dict[str, Any]) -> Resource:
    group, _, version = body["apiVersion"].rpartition("/")
    kind = body["kind"]
    plural = f"{kind.lower()}s" if not kind.endswith("y") else f"{kind.lower()[:-1]}ies"
    if kind.endswith("s"):
        plural = f"{kind.lower()}es"
    return Resource(group, version, plural, kind, "namespace" in body["metadata"])


async def test_the_server_takes_every_object_strictly(client):
    """A0-01: nothing else is installed there."""
    for body in render("--api-versions", "tenancy.x-k8s.io/v1alpha1/ClusterVersion"):
        await client.apply(
            resource_of(body), body, field_manager="test", validation="Strict", dry_run=True
        )


async def test_definitions_that_are_applied_again_change_nothing(client):
    """A0-02."""
    definitions = [body for body in render() if body["kind"] == "CustomResourceDefinition"]
    assert definitions
    for body in definitions:
        first, again = [
            await client.apply(CUSTOM_RESOURCE_DEFINITIONS, body, field_manager="twice")
            for _ in range(2)
        ]
        assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_the_server_warns_of_no_pod(server, client):
    """The namespace says `restricted`. A pod below it would be refused, so each is tried."""
    namespace = fresh_name()
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    meta = {"name": namespace, "labels": labels}
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    pods = Resource("", "v1", "pods", "Pod")
    for body in render():
        if body["kind"] in ("Deployment", "DaemonSet"):
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": body["metadata"]["name"], "namespace": namespace},
                "spec": body["spec"]["template"]["spec"],
            }
            await client.create(pods, pod, validation="Strict", dry_run=True)


async def test_the_first_install_makes_the_versions_too(server, client):
    found = await client.get(CLUSTER_VERSIONS, "v1.36")
    assert found["spec"] == {"kubernetesVersion": "1.36", "serviceType": "NodePort"}


async def test_the_first_install_creates_the_policies_with_all_their_fields(client):
    found = {
        name: await client.get(TENANT_POLICIES, name)
        for name in ("baseline", "restricted", "trusted", "conformance")
    }
    assert parse_tenant_policy(found["baseline"]) == BASELINE_POLICY
    whole = msgspec.json.decode(msgspec.json.encode(BASELINE_POLICY))
    assert found["baseline"]["spec"] == whole
    for body in found.values():
        told = msgspec.json.decode(msgspec.json.encode(parse_tenant_policy(body)))
        if body["spec"]["network"]["ingressAnnotations"]:  # the only field that expands to others
            told["metadata"]["annotations"].pop("Ingress")
        assert body["spec"] == told


async def test_namespaces_of_kubernetes_itself_hold_no_virtual_cluster(client):
    body = virtual_cluster(fresh_name())
    body["metadata"]["namespace"] = "kube-system"

    async def look() -> str:
        try:
            await client.create(VIRTUAL_CLUSTERS, body, dry_run=True)
        except Forbidden as problem:
            return problem.server_message
        raise AssertionError("the server took it")

    assert "Create the VirtualCluster in another namespace" in await eventually(look)


async def test_an_upgrade_adopts_changes_and_leaves_the_identity(server, client):
    before = await client.get(CLUSTER_VERSIONS, "v1.36")
    value = "clusterVersions.items.v1\\.36.serviceType=ClusterIP"
    server.helm("upgrade", RELEASE, str(CHART), "--set", value)
    after = await client.get(CLUSTER_VERSIONS, "v1.36")
    assert after["spec"]["serviceType"] == "ClusterIP"
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    server.helm("upgrade", RELEASE, str(CHART), "--reset-values")


async def test_the_members_of_a_store_are_one_or_three_and_may_change(client):
    """REL-121."""
    made = await client.create(CLUSTER_VERSIONS, cluster_version(kubernetesVersion="1.36"))
    name = made["metadata"]["name"]
    for replicas in (1, 3, None, 3, 1):
        await client.patch(CLUSTER_VERSIONS, name, {"spec": {"replicas": replicas}})
    for replicas in (0, 2, 5):
        with pytest.raises(Invalid, match="replicas"):
            await client.patch(CLUSTER_VERSIONS, name, {"spec": {"replicas": replicas}})


async def test_removal_keeps_tenants_and_a_new_install_takes_them_over(server, client):
    crd = "virtualclusters.tenancy.x-k8s.io"
    before = await client.get(CUSTOM_RESOURCE_DEFINITIONS, crd)
    server.helm("uninstall", RELEASE)
    kept = await client.get(CUSTOM_RESOURCE_DEFINITIONS, crd)
    assert kept["metadata"]["uid"] == before["metadata"]["uid"]
    await client.get(CLUSTER_VERSIONS, "v1.36")
    server.helm("install", RELEASE, str(CHART))
    again = await client.get(CUSTOM_RESOURCE_DEFINITIONS, crd)
    assert again["metadata"]["uid"] == before["metadata"]["uid"]


@pytest.mark.parametrize("schema", ["virtual-cluster", "virtual-cluster-leases"])
async def test_flow_schemas_point_at_levels_that_are_there(client, schema):
    flows = Resource(FLOWS, "v1", "flowschemas", "FlowSchema", namespaced=False)

    async def dangling() -> str:
        found = await client.get(flows, schema)
        return next(c["status"] for c in found["status"]["conditions"] if c["type"] == "Dangling")

    await eventually(dangling, until=lambda status: status == "False")


# The rules of the CRDs: each message names the fix.


async def test_a_full_spec_passes_and_defaults_are_filled_in(client):
    full = virtual_cluster(
        fresh_name(),
        clusterDomain="tenant.example",
        serviceCidr="10.96.64.0/22",
        pkiExpireDays=365,
        dns="none",
        metrics="managed",
        deletionGracePeriod="24h",
        policyRef={"name": "baseline"},
        transparentMetaPrefixes=["k8s.net.status"],
        opaqueMetaPrefixes=["tenancy.x-k8s.io"],
    )
    made = await client.create(VIRTUAL_CLUSTERS, full, validation="Strict", dry_run=True)
    assert made["spec"] == full["spec"]
    bare = await client.create(VIRTUAL_CLUSTERS, virtual_cluster(fresh_name()), dry_run=True)
    assert bare["spec"] == {
        "clusterVersionName": "v1.36",
        "clusterDomain": "cluster.local",
        "pkiExpireDays": 90,
        "dns": "managed",
        "metrics": "none",
        "deletionGracePeriod": "0s",
    }


async def test_a_name_with_a_dot_is_refused_in_the_words_of_the_vocabulary(client):
    told = await refused(client, VIRTUAL_CLUSTERS, virtual_cluster("a.b"))
    assert "metadata.name" in told
    with pytest.raises(names.InvalidNameError) as own:
        names.build_root_namespace("default", "a.b", "")
    remedy = str(own.value).partition(". ")[2]
    assert remedy in told


async def test_namespace_and_name_together_are_limited_in_the_words_of_the_vocabulary(client):
    longest = "a" * (names.MAX_NAMESPACE_AND_NAME - len("default"))
    with pytest.raises(names.InvalidNameError) as own:
        names.build_root_namespace("default", f"{longest}a", "")

    async def look() -> str:  # a policy counts from the moment the server has seen it
        return await refused(client, VIRTUAL_CLUSTERS, virtual_cluster(f"{longest}a"))

    told = await eventually(look)
    assert str(own.value) in told.replace("of the VirtualCluster ", "")
    await client.create(VIRTUAL_CLUSTERS, virtual_cluster(longest), dry_run=True)


BUNDLE = {"statefulset": {"apiVersion": "apps/v1", "anything": {"goes": [1]}}, "service": {}}
BOTH = {"etcd": BUNDLE, "apiServer": BUNDLE}


@pytest.mark.parametrize(
    "spec",
    [
        {"kubernetesVersion": "1.36"},
        {
            "kubernetesVersion": "1.36.4",
            "replicas": 3,
            "serviceType": "LoadBalancer",
            "etcdStorage": {"size": "2Gi", "className": "fast"},
            "extraArgs": {"apiServer": {"v": "4"}, "etcd": {}, "controllerManager": {"a": ""}},
        },
        BOTH,
        {**BOTH, "controllerManager": {"metadata": {"name": "controller-manager"}, **BUNDLE}},
    ],
)
async def test_both_shapes_of_a_version_pass_whole(client, spec):
    body = cluster_version(**spec)
    made = await client.create(CLUSTER_VERSIONS, body, validation="Strict", dry_run=True)
    assert made["spec"] == spec


# Each field of each kind. The rows and the valid specs are in tests/support/bad_fields.

KINDS = {
    each.kind: each
    for each in (
        CLUSTER_VERSIONS,
        SUPER_CLUSTERS,
        SYNC_RULES,
        TENANT_POLICIES,
        VIRTUAL_CLUSTERS,
        VIRTUAL_CLUSTER_SNAPSHOTS,
    )
}


def build_object(kind: str, spec: Any) -> dict[str, Any]:
    metadata = {"name": fresh_name("field")}
    if KINDS[kind].namespaced:
        metadata["namespace"] = "default"
    return {
        "apiVersion": KINDS[kind].api_version,
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
    }


async def find_refusal(client: Client, kind: str, spec: Any) -> str:
    """Return the message with which the API server refuses a spec. Empty if it takes the spec."""
    body = build_object(kind, spec)
    try:
        await client.create(KINDS[kind], body, validation="Strict", dry_run=True)
    except Invalid as problem:
        return problem.server_message
    return ""


@pytest.mark.parametrize("kind", KINDS)
async def test_the_server_refuses_each_bad_value_by_its_field(client, kind):
    rows = [
        *(row for row in SCHEMA_ROWS if row.kind == kind),
        *schema_fields.build_schema_rows(kind),
        *schema_fields.build_missing_rows(kind),
    ]
    assert len(rows) > len(VALID_SPECS[kind])
    unclear = {}
    for row in rows:
        spec = schema_fields.build_spec(kind, row.path, row.value)
        told = await find_refusal(client, kind, spec)
        place = schema_fields.describe_place(row.path)
        if row.sentence not in told or place not in told:
            unclear[f"{row.path} {str(row.value)[:40]!r}"] = (row.sentence, told[:400])
    assert unclear == {}


@pytest.mark.parametrize("kind", KINDS)
async def test_the_server_takes_valid_specs_and_the_values_that_a_program_judges(client, kind):
    """Otherwise the row would be refused for another field, or the program never asked."""
    specs = [*VALID_SPECS[kind]]
    specs += [
        schema_fields.build_spec(kind, row.path, row.value) for row in CODE_ROWS if row.kind == kind
    ]
    told = [await find_refusal(client, kind, spec) for spec in specs]
    assert [each for each in told if each] == []


@pytest.mark.parametrize(
    "row", FORBIDDEN_CHANGES, ids=lambda row: f"{row.kind}-{row.path}-{row.before}-{row.after}"[:60]
)
async def test_the_server_refuses_a_change_that_is_forbidden(client, row):
    whole = schema_fields.get_spec(row.kind, f"spec.{row.path}")
    spec = {**whole, row.path: row.before}
    resource = KINDS[row.kind]
    given = {key: value for key, value in spec.items() if value is not None}
    made = (await client.create(resource, build_object(row.kind, given)))["metadata"]
    place = {"namespace": made.get("namespace", "")}
    with pytest.raises(Invalid) as refusal:
        await client.patch(
            resource, made["name"], {"spec": {row.path: row.after}}, dry_run=True, **place
        )
    assert row.sentence in refusal.value.server_message
    await client.patch(resource, made["name"], {"metadata": {"labels": {"a": "b"}}}, **place)


async def test_a_manifest_of_upstreams_shape_passes_unchanged(client):
    """Whole objects with fields that our schema knows nothing of, kept to the last leaf."""
    for body in yaml.safe_load_all(UPSTREAM.read_text()):
        resource = resource_of(body)
        made = await client.create(resource, body, validation="Strict", dry_run=True)
        assert body["spec"].items() <= made["spec"].items()


async def test_the_table_of_kubectl_has_upstreams_columns_and_ours(client):
    name = fresh_name()
    await client.create(VIRTUAL_CLUSTERS, virtual_cluster(name))
    answer = await client.raw(
        "GET",
        VIRTUAL_CLUSTERS.build_path("default", name),
        accept="application/json;as=Table;v=v1;g=meta.k8s.io",
    )
    columns = re.findall(r'"name":"(\w+)"', answer.decode().partition("rows")[0])
    assert columns == [
        *("Name", "Phase", "Ready", "Synced", "Policy", "Version", "ClusterVersion", "Endpoint"),
        *("Age", "ClusterNamespace", "Message"),
    ]


async def test_status_is_written_apart_from_the_spec(client):
    name = fresh_name()
    await client.create(VIRTUAL_CLUSTERS, {**virtual_cluster(name), "status": {"phase": "Running"}})
    found = await client.get(VIRTUAL_CLUSTERS, name, namespace="default")
    assert found["status"] == {"observedGeneration": -1}  # the default, for kstatus


async def test_two_writers_share_the_conditions(client):
    name = fresh_name()
    await client.create(VIRTUAL_CLUSTERS, virtual_cluster(name))
    for manager, kind in (("vc-manager", "Ready"), ("vc-syncer", "Synced")):
        condition = {
            "type": kind,
            "status": "True",
            "reason": "Well",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        body = {
            "apiVersion": VIRTUAL_CLUSTERS.api_version,
            "kind": "VirtualCluster",
            "metadata": {"name": name, "namespace": "default"},
            "status": {"conditions": [condition]},
        }
        await client.apply(
            VIRTUAL_CLUSTERS, body, subresource="status", field_manager=manager, force=False
        )
    found = await client.get(VIRTUAL_CLUSTERS, name, namespace="default")
    assert {each["type"] for each in found["status"]["conditions"]} == {"Ready", "Synced"}


def test_the_namespace_of_the_components_is_the_releases(server):
    assert NAMESPACE in server.helm("list")
