"""The CRDs in the chart and the typed views in tenancy.specs have the same fields and defaults."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
import pytest
import yaml

from kubeio.config import secret_kubeconfig
from tenancy import control_plane_specs, specs, super_clusters
from tenancy.access import specs as access_specs
from tenancy.resources import (
    CLUSTER_VERSIONS,
    SUPER_CLUSTERS,
    TENANT_POLICIES,
    VIRTUAL_CLUSTER_SNAPSHOTS,
    VIRTUAL_CLUSTERS,
)
from tenancy.snapshots import specs as snapshot_fields
from vcmanager.runtime import status
from vnagent.upstream import kubelet

CRDS = Path("charts/virtual-cluster/files/crds")
STATUS_FOR_PEOPLE = {"reason", "message"}
"""Fields that the manager writes and no one of ours reads, so that the view has none."""


def crd(resource) -> dict[str, Any]:
    found = yaml.safe_load((CRDS / f"{resource.plural}.yaml").read_text())
    assert isinstance(found, dict)
    return found


def schema(resource, *path: str) -> dict[str, Any]:
    node = crd(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for step in path:
        node = node["properties"][step]
    return node


ALL = [
    VIRTUAL_CLUSTERS,
    CLUSTER_VERSIONS,
    TENANT_POLICIES,
    SUPER_CLUSTERS,
    VIRTUAL_CLUSTER_SNAPSHOTS,
]


@pytest.mark.parametrize("resource", ALL)
def test_coordinates_are_those_of_the_vocabulary(resource):
    spec = crd(resource)["spec"]
    assert (spec["group"], spec["names"]["plural"], spec["names"]["kind"]) == (
        *(resource.group, resource.plural, resource.kind),
    )
    assert (spec["scope"] == "Namespaced") is resource.namespaced
    assert [each["name"] for each in spec["versions"]] == [resource.version]
    assert spec["versions"][0]["subresources"] == {"status": {}}
    assert crd(resource)["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


VIEWS = [
    (VIRTUAL_CLUSTERS, ("spec",), specs.VirtualClusterSpec),
    (VIRTUAL_CLUSTERS, ("spec", "policyRef"), specs.PolicyRef),
    (VIRTUAL_CLUSTERS, ("spec", "snapshotSchedule"), snapshot_fields.SnapshotSchedule),
    (VIRTUAL_CLUSTERS, ("spec", "auth"), access_specs.AuthSpec),
    (VIRTUAL_CLUSTERS, ("spec", "endpoint"), access_specs.EndpointSpec),
    (VIRTUAL_CLUSTERS, ("status", "restore"), snapshot_fields.RestoreStatus),
    (VIRTUAL_CLUSTER_SNAPSHOTS, ("spec",), snapshot_fields.SnapshotSpec),
    (VIRTUAL_CLUSTER_SNAPSHOTS, ("spec", "storage"), snapshot_fields.SnapshotStorage),
    (VIRTUAL_CLUSTER_SNAPSHOTS, ("spec", "retention"), snapshot_fields.SnapshotRetention),
    (VIRTUAL_CLUSTER_SNAPSHOTS, ("status",), snapshot_fields.SnapshotStatus),
    (VIRTUAL_CLUSTER_SNAPSHOTS, ("status", "manifest"), snapshot_fields.SnapshotManifest),
    (VIRTUAL_CLUSTER_SNAPSHOTS, ("status", "comparison"), snapshot_fields.SnapshotComparison),
    (CLUSTER_VERSIONS, ("spec",), specs.ClusterVersionSpec),
    (CLUSTER_VERSIONS, ("spec", "etcdStorage"), specs.EtcdStorage),
    (CLUSTER_VERSIONS, ("spec", "extraArgs"), specs.ExtraArgs),
    (CLUSTER_VERSIONS, ("spec", "resources"), control_plane_specs.ControlPlaneResources),
    (CLUSTER_VERSIONS, ("spec", "resources", "dns"), control_plane_specs.ComponentResources),
    (CLUSTER_VERSIONS, ("spec", "encryption"), control_plane_specs.EncryptionSpec),
    (CLUSTER_VERSIONS, ("spec", "audit"), control_plane_specs.AuditSpec),
    (CLUSTER_VERSIONS, ("spec", "audit", "log"), control_plane_specs.AuditLog),
    (CLUSTER_VERSIONS, ("spec", "audit", "webhook"), control_plane_specs.AuditWebhook),
    (CLUSTER_VERSIONS, ("spec", "rollout"), control_plane_specs.RolloutSpec),
    (CLUSTER_VERSIONS, ("spec", "rollout", "window"), control_plane_specs.RolloutWindow),
    (CLUSTER_VERSIONS, ("status",), control_plane_specs.ClusterVersionStatus),
    (CLUSTER_VERSIONS, ("status", "rollout"), control_plane_specs.RolloutStatus),
    (CLUSTER_VERSIONS, ("spec", "etcd"), specs.ComponentBundle),
    (CLUSTER_VERSIONS, ("spec", "apiServer"), specs.ComponentBundle),
    (CLUSTER_VERSIONS, ("spec", "controllerManager"), specs.ComponentBundle),
    (SUPER_CLUSTERS, ("spec",), super_clusters.SuperClusterSpec),
    (SUPER_CLUSTERS, ("spec", "secretRef"), super_clusters.SecretRef),
    (SUPER_CLUSTERS, ("status",), super_clusters.SuperClusterStatus),
    (SUPER_CLUSTERS, ("status", "network"), super_clusters.ClusterRanges),
]


@pytest.mark.parametrize(("resource", "path", "view"), VIEWS)
def test_the_fields_of_the_schema_are_those_of_the_view(resource, path, view):
    node = schema(resource, *path)
    fields = {each.encode_name: each for each in msgspec.structs.fields(view)}
    assert set(node["properties"]) == set(fields)
    assert set(node.get("required", ())) == {name for name, each in fields.items() if each.required}
    for name, inside in node["properties"].items():
        if "default" in inside:
            assert inside["default"] == _default(fields[name])


WITHOUT_DEFAULT = {
    ("ClusterVersion", "replicas"): "It belongs to the short form, which excludes bundles.",
    ("ClusterVersion", "serviceType"): "It belongs to the short form, which excludes bundles.",
    ("ClusterVersion", "level"): "It excludes audit.policy.",
    (
        "VirtualCluster",
        "suspend",
    ): "A release without the default would store it after a downgrade.",
}
"""Fields with a default in the description only, and the reason."""


@pytest.mark.parametrize(("resource", "path", "view"), VIEWS)
def test_defaults_of_the_code_are_in_the_schema(resource, path, view):
    """Otherwise `kubectl get -o yaml` does not show what takes effect."""
    node = schema(resource, *path)
    missing = [
        each.encode_name
        for each in msgspec.structs.fields(view)
        if path[0] == "spec"
        and not each.required
        and _default(each) not in (None, "", [], {})
        and "default" not in node["properties"][each.encode_name]
        and (resource.kind, each.encode_name) not in WITHOUT_DEFAULT
    ]
    assert missing == []


def _default(declared: Any) -> Any:
    """Return a default as JSON has it. A struct without a word is an empty object."""
    if declared.default_factory is not msgspec.NODEFAULT:
        return declared.default_factory()
    plain = msgspec.to_builtins(declared.default)
    if isinstance(declared.default, msgspec.Struct):
        return {}
    return [] if plain == () else plain


@pytest.mark.parametrize(
    ("path", "view"),
    [
        (("encryption", "provider"), control_plane_specs.EncryptionProvider),
        (("audit", "level"), control_plane_specs.AuditLevel),
        (("audit", "log", "output"), control_plane_specs.AuditOutput),
    ],
)
def test_enumerations_inside_of_a_version_have_the_same_values(path, view):
    assert schema(CLUSTER_VERSIONS, "spec", *path)["enum"] == [*get_args(view)]


def test_the_network_and_the_taints_of_a_super_cluster_are_those_of_the_view():
    node = schema(SUPER_CLUSTERS, "spec", "network")
    fields = msgspec.structs.fields(super_clusters.NetworkFacts)
    assert set(node["properties"]) == {each.encode_name for each in fields}
    taint = schema(SUPER_CLUSTERS, "spec", "taints")["items"]
    assert set(taint["properties"]) == set(super_clusters.VirtualNodeTaint.__struct_fields__)
    assert taint["properties"]["effect"]["enum"] == [*get_args(super_clusters.TaintEffect)]


def test_the_status_has_what_the_view_reads():
    names = {each.encode_name for each in msgspec.structs.fields(specs.VirtualClusterStatus)}
    assert set(schema(VIRTUAL_CLUSTERS, "status")["properties"]) == names | STATUS_FOR_PEOPLE


@pytest.mark.parametrize(
    ("resource", "field", "view"),
    [
        (VIRTUAL_CLUSTERS, "dns", specs.VirtualClusterSpec),
        (CLUSTER_VERSIONS, "serviceType", specs.ClusterVersionSpec),
        (SUPER_CLUSTERS, "mode", super_clusters.SuperClusterSpec),
    ],
)
def test_enumerations_have_the_same_values(resource, field, view):
    declared = next(each for each in msgspec.structs.fields(view) if each.encode_name == field)
    assert get_origin(declared.type) is not None
    assert schema(resource, "spec", field)["enum"] == [*get_args(declared.type)]


def test_the_phases_that_the_definition_lists_are_those_that_are_written():
    """`Updating` was listed, and nothing wrote it."""
    said = schema(VIRTUAL_CLUSTERS, "status", "phase")["description"]
    listed = re.search(r"Values: ([A-Za-z, ]+)\.", said)
    assert listed
    returned = {
        node.value.elts[0].value
        for node in ast.walk(
            ast.parse(textwrap.dedent(inspect.getsource(status.ReconcileStatus._compute_phase)))
        )
        if isinstance(node, ast.Return)
        and isinstance(node.value, ast.Tuple)
        and isinstance(node.value.elts[0], ast.Constant)
    }
    assert set(listed[1].split(", ")) == set(get_args(specs.VirtualClusterPhase)) == returned


def test_the_mode_reports_what_each_does_and_needs():
    said = " ".join(schema(SUPER_CLUSTERS, "spec", "mode")["description"].split())
    for mode in get_args(super_clusters.AccessMode):
        assert f" {mode}: " in said
    port, key = str(kubelet.KUBELET_PORT), secret_kubeconfig.KUBELET_AUTHORITIES_KEY
    for word in ("status.hostIP", port, key, "nodes/proxy", "--mode agent"):
        assert word in said
    assert schema(SUPER_CLUSTERS, "spec", "mode")["default"] == "apiserver"


@pytest.mark.parametrize("resource", [VIRTUAL_CLUSTERS, CLUSTER_VERSIONS, SUPER_CLUSTERS])
def test_conditions_are_a_list_by_type_that_two_writers_can_share(resource):
    conditions = schema(resource, "status", "conditions")
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


def test_the_columns_of_upstream_are_kept():
    columns = {
        each["name"]: (each["jsonPath"], each.get("priority", 0))
        for each in crd(VIRTUAL_CLUSTERS)["spec"]["versions"][0]["additionalPrinterColumns"]
    }
    upstream = {
        "Age": (".metadata.creationTimestamp", 0),
        "Phase": (".status.phase", 0),
        "ClusterVersion": (".spec.clusterVersionName", 0),
        "ClusterNamespace": (".status.clusterNamespace", 1),
    }
    assert upstream.items() <= columns.items()
    assert {"Ready", "Version", "Endpoint"} <= columns.keys()
    assert crd(VIRTUAL_CLUSTERS)["spec"]["names"]["shortNames"] == ["vc"]
    assert crd(CLUSTER_VERSIONS)["spec"]["names"]["shortNames"] == ["cv"]
    assert crd(TENANT_POLICIES)["spec"]["names"]["shortNames"] == ["tpol"]
    assert crd(SUPER_CLUSTERS)["spec"]["names"]["shortNames"] == ["scl"]  # sc is StorageClass


def test_the_columns_of_a_tenant_are_what_its_administrator_needs_first():
    columns = crd(VIRTUAL_CLUSTERS)["spec"]["versions"][0]["additionalPrinterColumns"]
    shown = {each["name"] for each in columns if not each.get("priority")}
    assert {"Ready", "Synced", "Policy", "Version", "Endpoint"} <= shown


@pytest.mark.parametrize(
    ("path", "view"),
    [
        ((), access_specs.JwtAuthenticator),
        (("issuer",), access_specs.Issuer),
        (("claimMappings",), access_specs.ClaimMappings),
        (("claimMappings", "username"), access_specs.PrefixedClaim),
        (("claimMappings", "groups"), access_specs.PrefixedClaim),
        (("claimMappings", "uid"), access_specs.ClaimOrExpression),
        (("claimMappings", "extra", "[]"), access_specs.ExtraMapping),
        (("claimValidationRules", "[]"), access_specs.ClaimValidationRule),
        (("userValidationRules", "[]"), access_specs.UserValidationRule),
    ],
)
def test_the_fields_of_an_issuer_are_those_of_the_view(path, view):
    node = schema(VIRTUAL_CLUSTERS, "spec", "auth", "jwt")["items"]
    for step in path:
        node = node["items"] if step == "[]" else node["properties"][step]
    fields = {each.encode_name: each for each in msgspec.structs.fields(view)}
    assert set(node["properties"]) == set(fields)
    assert set(node.get("required", ())) == {name for name, each in fields.items() if each.required}


def _iterate_properties(node: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, each in (node.get("properties") or {}).items():
        yield f"{path}.{name}", each
        yield from _iterate_properties(each, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from _iterate_properties(node[key], f"{path}[]")


TYPE_FIELDS = {".apiVersion", ".kind", ".metadata", ".metadata.name"}


@pytest.mark.parametrize("resource", ALL)
def test_every_field_is_described(resource):
    """`kubectl explain` shows the descriptions."""
    found = dict(_iterate_properties(schema(resource), ""))
    missing = {path for path, node in found.items() if not node.get("description")}
    assert missing <= TYPE_FIELDS


SHARED_DESCRIPTIONS = {"names", "matchLabels", "configMaps", "secrets"}
"""Fields whose description says the same of each kind."""


@pytest.mark.parametrize("resource", ALL)
def test_a_field_that_reuses_a_schema_has_a_description_of_its_own(resource):
    """A YAML alias takes the description of the field it repeats as well."""
    described: dict[str, set[str]] = {}
    for path, node in _iterate_properties(schema(resource), ""):
        if node.get("type") in ("string", "boolean", "array") and node.get("description"):
            name = path.rsplit(".", 1)[1].removesuffix("[]")
            described.setdefault(node["description"], set()).add(name)
    shared = {tuple(sorted(names)) for names in described.values() if len(names) > 1}
    assert not {names for names in shared if not set(names) <= SHARED_DESCRIPTIONS}


@pytest.mark.parametrize("resource", ALL)
def test_every_column_is_described(resource):
    columns = crd(resource)["spec"]["versions"][0]["additionalPrinterColumns"]
    missing = [each["name"] for each in columns if not each.get("description")]
    assert missing == ["Age"]


def rules(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, list):
        return [rule for each in node for rule in rules(each)]
    if not isinstance(node, dict):
        return []
    own = node.get("x-kubernetes-validations", [])
    return [*own, *(rule for value in node.values() for rule in rules(value))]


@pytest.mark.parametrize("resource", ALL)
def test_every_rule_has_words_of_its_own(resource):
    found = rules(crd(resource)["spec"]["versions"][0]["schema"])
    assert found
    assert all(len(each["message"].split()) > 4 for each in found)


def test_chart_lists_each_custom_resource():
    chart = yaml.safe_load(Path("charts/virtual-cluster/Chart.yaml").read_text())
    listed = yaml.safe_load(chart["annotations"]["artifacthub.io/crds"])
    served = [
        (body["metadata"]["name"], body["spec"]["names"]["kind"], version["name"])
        for body in (yaml.safe_load(path.read_text()) for path in CRDS.glob("*.yaml"))
        for version in body["spec"]["versions"]
        if version["served"]
    ]
    assert sorted((row["name"], row["kind"], row["version"]) for row in listed) == sorted(served)
