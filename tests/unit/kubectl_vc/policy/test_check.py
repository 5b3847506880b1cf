"""`kubectl vc policy check`: files, policies, output and exit codes."""

import json

import pytest
import yaml

from kubectl_vc.policy import unknown_fields
from tenancy.policies import TenantPolicySpec
from tests.support.kubectl_vc.command_runner import invoke
from tools.packages import ROOT

GOOD = "kind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, image: b}]}\n"
BAD = "kind: Pod\nmetadata: {name: host}\nspec: {hostNetwork: true, containers: []}\n"


def run(*words: str, text: str = GOOD):
    return invoke("policy", "check", *words, stdin=text)


def test_allowed_objects_end_well():
    done = run("-f", "-")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1].split() == ["Pod", "default/web", "allowed"] + ["<none>"] * 2


def test_refused_objects_fail_with_rule_and_sentence():
    done = run("-f", "-", text=f"{GOOD}---\n{BAD}")
    assert done.exit_code == 1
    assert "host-namespace" in done.stdout
    assert "spec.hostNetwork must not be true." in done.stdout
    assert done.stderr == "error: 1 of 2 objects would be refused.\n"


def test_json_has_each_object():
    done = run("-f", "-", "-o", "json", text=f"kind: List\nitems: [{json.dumps({'kind': 'X'})}]")
    assert done.exit_code == 0
    [found] = json.loads(done.stdout)
    assert (found["kind"], found["result"]) == ("X", "not-synced")


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ("spec: {securty: {level: restricted}}", "spec.securty"),
        ("spec: {security: {levl: restricted}}", "spec.security.levl"),
        ("spec: {sync: {storageClasses: {nams: [a]}}}", "spec.sync.storageClasses.nams"),
        ("spec: {network: {hostports: Allow}}", "spec.network.hostports"),
        ("specs: {}", "specs"),
    ],
)
def test_an_unknown_field_of_a_policy_file_is_named_by_its_path(fields, path, tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text(f"kind: TenantPolicy\nmetadata: {{name: p}}\n{fields}\n")
    done = run("-f", "-", "--policy", str(file))
    assert done.exit_code == 1
    assert done.stderr.startswith("error: ")
    assert f"unknown field {path}. Correct" in done.stderr


def test_all_fields_of_the_definition_are_known():
    definition = yaml.safe_load(
        (ROOT / "charts/virtual-cluster/files/crds/tenantpolicies.yaml").read_text()
    )
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]

    def sample(node):
        if "properties" in node:
            return {name: sample(each) for name, each in node["properties"].items()}
        return [sample(node["items"])] if "items" in node else node.get("type")

    found = unknown_fields.iterate_unknown_fields(sample(schema), TenantPolicySpec, "spec")
    assert list(found) == []


@pytest.mark.parametrize(
    ("words", "text", "code", "said"),
    [
        ((), GOOD, 2, "-f is missing"),
        (("-f", "-", "--policy", "a", "--vc", "b"), GOOD, 2, "cannot be used together"),
        (("-f", "-", "-o", "name"), GOOD, 2, "must be one of table, json"),
        (("-f", "/none.yaml"), GOOD, 1, "/none.yaml"),
        (("-f", "-"), "", 1, "standard input has no object"),
        (("-f", "-", "-f", "/none.yaml"), GOOD, 1, "/none.yaml"),
        (("-f", "-", "-f", ""), GOOD, 2, "-f is missing"),
        (("-f", "-"), "a: [", 1, "is not YAML or JSON"),
        (("-f", "-"), "[1]", 1, "without kind"),
        (("-f", "-"), "kind: 7", 1, "without kind"),
        (("-f", "-"), "kind: List\nitems: [3]", 1, "without kind"),
        (("-f", "-", "--policy", "nothing"), GOOD, 1, "neither a built-in TenantPolicy"),
        (("-f", "-", "--vc", "A/b/c"), GOOD, 2, ""),
    ],
)
def test_bad_input_is_one_clear_sentence(words, text, code, said):
    done = run(*words, text=text)
    assert said in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.exit_code in (code, 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Pod\n", "has 0 objects of the kind TenantPolicy"),
        ("kind: TenantPolicy\nspec: {security: {level: odd}}\n", "no valid TenantPolicy"),
        ("kind: TenantPolicy\nmetadata: 3\n", "no valid TenantPolicy"),
    ],
)
def test_bad_policy_file_is_one_clear_sentence(tmp_path, text, said):
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    done = run("-f", "-", "--policy", str(path))
    assert done.exit_code == 1
    assert said in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Pod\nspec: {hostNetwork: true}\nspec: {containers: []}\n", "is duplicated"),
        ("kind: Pod\nspec: &s\n  x: *s\n", "refers to itself"),
        ("kind: List\nitems: &s\n- *s\n", "refers to itself"),
        ("kind: Pod\nspec: " + "[" * 5000, "nested deeper"),
    ],
)
def test_a_hostile_manifest_is_refused(text, said):
    done = invoke("policy", "check", "-f", "-", stdin=text)
    assert done.exit_code == 1
    assert done.stderr.startswith("error: ")
    assert said in done.stderr


def test_every_document_is_checked():
    """Documents after the 1000th were left out, and the command exited with 0."""
    first = "".join(f"---\nkind: ConfigMap\nmetadata: {{name: c{n}}}\n" for n in range(1001))
    last = "---\nkind: Pod\nspec: {hostNetwork: true, containers: []}\n"
    done = invoke("policy", "check", "-f", "-", stdin=first + last)
    assert done.exit_code == 1
    assert "1 of 1002 objects would be refused" in done.stderr


def test_claim_templates_of_a_wrong_type_are_no_crash():
    text = "kind: StatefulSet\nspec: {volumeClaimTemplates: 5, template: {spec: {}}}\n"
    assert invoke("policy", "check", "-f", "-", stdin=text).exit_code == 0
