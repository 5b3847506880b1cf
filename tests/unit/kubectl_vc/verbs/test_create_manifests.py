import io
import sys

import pytest

from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.verbs import create_manifests

TENANT = """
apiVersion: tenancy.x-k8s.io/v1alpha1
kind: VirtualCluster
metadata: {name: web, namespace: shop}
spec: {clusterVersionName: v1.36, clusterDomain: cluster.local, pkiExpireDays: 365}
"""
VERSION = """
apiVersion: tenancy.x-k8s.io/v1alpha1
kind: ClusterVersion
metadata: {name: v1.36}
spec: {kubernetesVersion: "1.36"}
"""


def refused(text: str) -> str:
    with pytest.raises(CliError) as told:
        create_manifests.parse_manifest(text.encode(), "vc.yaml")
    return str(told.value)


def test_a_virtual_cluster_alone():
    found = create_manifests.parse_manifest(TENANT.encode(), "vc.yaml")
    assert found.cluster_version is None
    assert found.virtual_cluster["metadata"] == {"name": "web", "namespace": "shop"}


@pytest.mark.parametrize(
    "text",
    [
        f"{VERSION}---{TENANT}",
        f"---\n---{TENANT}---{VERSION}---\n",
        (
            '{"kind": "List", "apiVersion": "v1", "items": ['
            '{"apiVersion": "tenancy.x-k8s.io/v1alpha1", "kind": "VirtualCluster",'
            ' "metadata": {"name": "web"}, "spec": {"clusterVersionName": "v1.36"}},'
            '{"apiVersion": "tenancy.x-k8s.io/v1alpha1", "kind": "ClusterVersion",'
            ' "metadata": {"name": "v1.36"}, "spec": {"kubernetesVersion": "1.36"}}]}'
        ),
    ],
)
def test_a_virtual_cluster_with_its_version_in_any_order_and_form(text):
    found = create_manifests.parse_manifest(text.encode(), "vc.yaml")
    assert found.virtual_cluster["metadata"]["name"] == "web"
    assert found.cluster_version["metadata"]["name"] == "v1.36"


def test_text_that_is_no_yaml_is_refused_with_the_place():
    told = refused("kind: VirtualCluster\nspec: [a\n")
    assert told.startswith("vc.yaml is not YAML or JSON: line 3, column 1: ")


def test_a_key_that_is_given_twice_is_refused():
    told = refused(TENANT.replace("spec: {", "spec: {clusterVersionName: v1.35, "))
    assert "the key 'clusterVersionName' is duplicated" in told
    assert "line 5" in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "vc.yaml has no VirtualCluster. Use one in each file"),
        (VERSION, "vc.yaml has no VirtualCluster. Use one in each file"),
        (f"{TENANT}---{TENANT}", "vc.yaml has 2 VirtualClusters. Use one in each file"),
        (f"{TENANT}---{VERSION}---{VERSION}", "vc.yaml has 2 ClusterVersions. Keep the one"),
        ("just text", "it has no kind. Check that it is the right file."),
        ("kind: List\nitems: 5", "items of the List is not a list"),
        ("kind: List\nitems: {a: b}", "items of the List is not a list"),
        ("kind: List\nitems: text", "items of the List is not a list"),
        ("kind: List\nitems:", "has no VirtualCluster"),
        ("kind: [VirtualCluster]", "an object of kind ['VirtualCluster']"),
        ("apiVersion: v1\nkind: Pod", "an object of kind Pod. Only a VirtualCluster and its"),
        (
            TENANT.replace("v1alpha1", "v1"),
            (
                "apiVersion of the VirtualCluster is tenancy.x-k8s.io/v1. Write"
                " tenancy.x-k8s.io/v1alpha1"
            ),
        ),
        (TENANT.replace("name: web", "nme: web"), "the VirtualCluster has no metadata.name"),
        (
            TENANT.replace("name: web", "name: 10"),
            "metadata.name of the VirtualCluster is not a string",
        ),
        (TENANT.replace("shop", "123"), "metadata.namespace of the VirtualCluster is not a string"),
        (TENANT.replace("spec:", "specs:"), "spec of the VirtualCluster web is missing"),
        (
            f"{TENANT.replace('clusterVersionName', 'version')}---{VERSION}",
            "spec.clusterVersionName is missing. Add the name of the ClusterVersion in the same",
        ),
        (TENANT.replace("v1.36", "1.36"), "spec.clusterVersionName is not a string. Quote it"),
        (TENANT.replace("v1.36", "''"), "spec.clusterVersionName is empty. Add the name"),
        (
            f"{TENANT}---{VERSION}".replace("metadata: {name: v1.36}", "metadata: {name: other}"),
            ("spec.clusterVersionName is v1.36, but the ClusterVersion in the same file is other"),
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_field_and_remedy(text, told):
    assert told in refused(text)


def test_a_name_without_namespace_goes_where_the_flag_or_context_specifies():
    body = create_manifests.build_virtual_cluster("web", "v1.36").virtual_cluster
    assert (
        create_manifests.with_namespace(body, "shop", is_explicit=False)["metadata"]["namespace"]
        == "shop"
    )
    assert "namespace" not in body["metadata"]


def test_the_manifest_wins_over_the_context_and_contradicts_the_flag():
    body = create_manifests.parse_manifest(TENANT.encode(), "vc.yaml").virtual_cluster
    assert (
        create_manifests.with_namespace(body, "other", is_explicit=False)["metadata"]["namespace"]
        == "shop"
    )
    with pytest.raises(CliError, match=r"metadata\.namespace is shop, but -n is other"):
        create_manifests.with_namespace(body, "other", is_explicit=True)


def test_an_over_long_name_is_refused_in_the_words_of_the_vocabulary():
    body = create_manifests.build_virtual_cluster("a" * 50, "v1.36").virtual_cluster
    with pytest.raises(CliError, match="the limit is 55\\. Shorten the name by 2"):
        create_manifests.with_namespace(body, "default", is_explicit=False)


def test_sources_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(CliError, match="nowhere cannot be read: No such file or directory"):
        create_manifests.load_source(str(tmp_path / "nowhere"))
    with pytest.raises(CliError, match=r"cannot be read: .*refused"):
        create_manifests.load_source("http://127.0.0.1:9/vc.yaml")


def test_a_file_and_standard_input_are_read(tmp_path, monkeypatch):
    path = tmp_path / "vc.yaml"
    path.write_text(TENANT)
    assert create_manifests.load_source(str(path)) == TENANT.encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"kind: x")))
    assert create_manifests.load_source("-") == b"kind: x"


def test_a_file_without_end_is_not_read_to_its_end():
    with pytest.raises(CliError, match="is larger than"):
        create_manifests.load_source("/dev/zero")


def of_spec(spec: str) -> str:
    """Return the manifest with this spec."""
    return TENANT[: TENANT.index("spec:")] + f"spec: {spec}\n"


LETTERS = "bcdefghij"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
    for old, new in zip("abcdefghi", LETTERS, strict=True)
)
MERGES = "a: &a {k: 1}\n" + "".join(
    f"{new}: &{new} {{<<: [{', '.join([f'*{old}'] * 9)}]}}\n"
    for old, new in zip("abcdefghi", LETTERS, strict=True)
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (of_spec("&a {clusterVersionName: v1.36, x: *a}"), "line 5, column 41: the alias a refers"),
        (
            of_spec("{x: &a [*a]}"),
            "the alias a refers to itself. Write it without aliases or nesting",
        ),
        ("[" * 200_000, "line 1, column 101: it is nested deeper than 100 levels"),
        (of_spec("{a: " * 5000 + "1" + "}" * 5000), "it is nested deeper than 100 levels"),
        (BOMB, "with its aliases it has more than 100000 values"),
        (MERGES, "with its aliases it has more than 100000 values"),
        (of_spec("{x: 2020-99-99}"), "a value that JSON does not have: month must be in 1..12"),
        (
            of_spec("{x: 99999999999999999999999}"),
            "a value that JSON does not have: Integer exceeds",
        ),
        (of_spec("{x: !!int ''}"), "a value that JSON does not have"),
        (of_spec("{x: !!bool ''}"), "a value that JSON does not have"),
        (of_spec("{x: !!binary aGk=}"), "a value that JSON does not have"),
        (of_spec("{1: 2}"), "a value that JSON does not have: Dict key must be str"),
        (of_spec(r'{clusterVersionName: "\ud800"}'), "a value that JSON does not have"),
        (of_spec("{clusterVersionName: ../..}"), "'../..' is not a valid object name"),
    ],
)
def test_what_reports_more_than_its_text_shows_is_refused(text, told):
    said = refused(text)
    assert told in said
    assert said.startswith("vc.yaml")
    assert "\n" not in said


def test_an_alias_may_stand_for_a_few_lines():
    spec = "{clusterVersionName: v1.36, a: &a {k: [1, 2]}, b: *a, c: {<<: *a}}"
    found = create_manifests.parse_manifest(of_spec(spec).encode(), "vc.yaml").virtual_cluster[
        "spec"
    ]
    assert found["a"] == found["b"] == found["c"] == {"k": [1, 2]}


@pytest.mark.parametrize("namespace", ["../../x", "..", "a/b", "Upper", "x" * 64, "a%2fb"])
def test_a_namespace_in_the_file_is_a_name_and_no_path(namespace):
    text = TENANT.replace("shop", f"'{namespace}'")
    body = create_manifests.parse_manifest(text.encode(), "vc.yaml").virtual_cluster
    with pytest.raises(CliError, match=r"metadata\.namespace: '.*' is not a DNS label. Use"):
        create_manifests.with_namespace(body, "default", is_explicit=False)


def test_a_version_by_flag_is_a_name_and_no_path():
    with pytest.raises(CliError, match=r"--cluster-version '\.\./x' is not a valid object name"):
        create_manifests.build_virtual_cluster("web", "../x")


@pytest.mark.parametrize(
    ("labels", "protection"),
    [
        (None, "enabled"),
        ({"team": "a"}, "enabled"),
        ({"tenancy.x-k8s.io/deletion-protection": "disabled"}, "disabled"),
    ],
)
def test_a_tenant_is_protected_unless_its_manifest_differs(labels, protection):
    """T2-12, SEC-85."""
    metadata = {"name": "web", **({"labels": labels} if labels else {})}
    made = create_manifests.with_namespace({"metadata": metadata}, "shop", is_explicit=False)
    found = made["metadata"]["labels"]
    assert found == {**(labels or {}), "tenancy.x-k8s.io/deletion-protection": protection}


def test_labels_that_are_no_map_are_left_to_the_api_server():
    body = {"metadata": {"name": "web", "labels": "a"}}
    made = create_manifests.with_namespace(body, "shop", is_explicit=False)
    assert made["metadata"]["labels"] == "a"


@pytest.mark.parametrize("text", [TENANT.replace("clusterVersionName: v1.36, ", "")])
def test_a_virtual_cluster_may_leave_the_cluster_version_to_the_default(text):
    found = create_manifests.parse_manifest(text.encode(), "vc.yaml")
    assert "clusterVersionName" not in found.virtual_cluster["spec"]
    assert create_manifests.build_virtual_cluster("web", "").virtual_cluster["spec"] == {}
