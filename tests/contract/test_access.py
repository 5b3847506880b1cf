"""No one may do more than the tables say, and the files say what the tables say."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest
import yaml

from charts import generate, readme
from clusterversions import catalog
from tenancy import wellknown
from tenancy.rbac import InvalidRbacRuleError, RbacRule
from tenancy.super_clusters import AccessMode

TABLES = {
    **{each.account: each.rows for each in generate.COMPONENTS},
    "tenant": tuple(generate.TENANT_RBAC_RULES),
    "target": tuple(generate.TARGET_RBAC_RULES),
    "namespace of a tenant": tuple(generate.NAMESPACE_RBAC_RULES),
    "root namespace": tuple(generate.CREDENTIAL_RBAC_RULES),
    **{f"target agent, {mode}": rows for mode, rows in generate.TARGET_AGENT_ACCESS.items()},
}


BINDABLE = {
    "target": {wellknown.SYNCER_NAMESPACE_ROLE},
    wellknown.SYNCER: {wellknown.SYNCER_NAMESPACE_ROLE},
    wellknown.MANAGER: {wellknown.KUBECONFIG_READER_ROLE, wellknown.SYNCER_CREDENTIAL_ROLE},
}
"""Roles that a component may bind, each in the namespaces of its admission policy only."""


def test_the_generated_files_are_fresh():
    assert generate.list_stale(generate.ROOT) == [], "run `python -m charts.generate`"


@pytest.mark.parametrize("table", TABLES)
def test_a_table_is_not_empty_and_has_no_row_twice(table):
    rows = TABLES[table]
    assert rows
    grants = [
        (row.group, resource, verb, row.names, row.namespaced)
        for row in rows
        for resource in row.resources
        for verb in row.verbs
    ]
    assert len(grants) == len(set(grants))


@pytest.mark.parametrize("table", TABLES)
def test_no_role_may_grant_itself_more(table):
    """These rows allow everything, independently of the rest of the table.

    vc-manager binds one role in root namespaces, and the chart's policy on its account holds it to
    that (tests/chart/test_stolen_tokens.py).
    """
    for row in TABLES[table]:
        assert not {"escalate", "impersonate"} & set(row.verbs), row
        if "bind" in row.verbs:
            assert row.names, row
            assert set(row.names) <= BINDABLE.get(table, set()), row
        elif row.group == "rbac.authorization.k8s.io":
            may_write = {("rolebindings", verb) for verb in ("create", "patch", "delete")}
            if table not in BINDABLE:
                may_write = set()
            if wellknown.SYNCER_TARGETS_ROLE in row.names and row.namespaced:
                may_write.add(("roles", "patch"))  # no right that its writer lacks
            writes = {
                (resource, verb)
                for resource in row.resources
                for verb in row.verbs
                if verb not in ("get", "list", "watch")
            }
            assert writes <= may_write, row
        if "serviceaccounts/token" in row.resources:
            assert table == "tenant", row


POLICIES = {generate.TARGET_FOLDER / name for name in generate.TARGET_POLICIES}


@pytest.mark.parametrize("path", {*generate.build_files()} - POLICIES)
def test_no_role_has_a_wildcard(path):
    text = (generate.ROOT / path).read_text()
    lines = [line for line in text.splitlines() if not line.strip().startswith("#")]
    assert not any(re.search(r'\[\s*"?\*|-\s*"?\*', line) for line in lines)


def test_the_tenants_role_is_one_cluster_role():
    found = yaml.safe_load((generate.ROOT / generate.TENANT_ROLE).read_text())
    assert (found["kind"], found["metadata"]["name"]) == ("ClusterRole", "tenancy:syncer")
    assert len(found["rules"]) == len(generate.TENANT_RBAC_RULES)


def test_a_target_grants_less_than_the_home_cluster():
    found = yaml.safe_load((generate.ROOT / generate.TARGET_ROLE).read_text())
    assert (found["kind"], len(found["rules"])) == ("ClusterRole", len(generate.TARGET_RBAC_RULES))
    assert {*generate.TARGET_RBAC_RULES} < {*TABLES["vc-syncer"]}
    granted = {each for row in generate.TARGET_RBAC_RULES for each in row.resources}
    assert {"namespaces", "pods", "rolebindings", "networkpolicies"} <= granted
    assert not granted & {
        "secrets",
        "clusterroles",
        "services",
        "leases",
        "virtualclusters",
        "persistentvolumes",
    }


@pytest.mark.parametrize("table", ["vc-syncer", "target"])
def test_the_syncer_reads_secrets_of_no_namespace_by_its_cluster_role(table):
    """SEC-70."""
    granted = {resource for row in TABLES[table] for resource in row.resources}
    assert "secrets" not in granted
    (row,) = generate.NAMESPACE_RBAC_RULES
    assert row.resources == ("secrets",)
    (own,) = generate.CREDENTIAL_RBAC_RULES
    assert own.names == (wellknown.SYNCER_KUBECONFIG,)
    assert not {*own.verbs} - {"get", "list", "watch"}


def test_each_mode_of_a_target_has_a_role_for_its_agent_and_nodes_are_for_one_alone():
    assert {*generate.TARGET_AGENT_ROLES} == {*get_args(AccessMode)}
    granted = {}
    for mode in get_args(AccessMode):
        found = yaml.safe_load(catalog.read_target_agent_role(mode))
        assert found["metadata"]["name"] == "virtual-cluster:target-agent"
        granted[mode] = {
            (resource, verb)
            for rule in found["rules"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
    assert granted["agent"] == {("pods", "list"), ("nodes/proxy", "get"), ("nodes/proxy", "create")}
    assert not any(resource.startswith("nodes") for resource, _ in granted["apiserver"])


@pytest.mark.parametrize(
    "row",
    [
        {"resources": ("*",)},
        {"verbs": ("get", "*")},
        {"group": "*"},
        {"resources": ()},
        {"verbs": ()},
        {"reason": " "},
        {"names": ("a",), "verbs": ("create",)},
        {"enabled_by": ("agent.upstream", ())},
        {"enabled_by": ("", ("auto",))},
    ],
)
def test_a_row_that_grants_too_much_or_nothing_cannot_be_written(row):
    fine = {"group": "", "resources": ("pods",), "verbs": ("get",), "reason": "Reads pods."}
    RbacRule(**fine)
    with pytest.raises(InvalidRbacRuleError):
        RbacRule(**(fine | row))


def test_rules_carry_their_reason_and_their_names():
    rows = (RbacRule("", ("pods", "pods/log"), ("get",), "Because.", names=("a",)),)
    text = generate.format_rules(rows)
    assert text.startswith("  # Because.\n")
    assert yaml.safe_load(text) == [
        {
            "apiGroups": [""],
            "resources": ["pods", "pods/log"],
            "resourceNames": ["a"],
            "verbs": ["get"],
        }
    ]


def test_a_row_may_hang_on_a_value_of_the_chart():
    rows = (
        RbacRule("", ("pods",), ("get",), "Because.", enabled_by=("agent.upstream", ("a", "b"))),
    )
    first, *rule, last = generate.format_rules(rows).splitlines(keepends=True)
    assert first == '  {{- if has .Values.agent.upstream (list "a" "b") }}\n'
    assert last == "  {{- end }}\n"
    assert "".join(rule) == generate.format_rules((RbacRule("", ("pods",), ("get",), "Because."),))


def test_what_a_row_hangs_on_is_a_value_with_these_choices():
    schema = json.loads((readme.CHART / "values.schema.json").read_text())
    values = dict(readme.iterate_values(schema, schema))
    for table in TABLES.values():
        for value, choices in (row.enabled_by for row in table if row.enabled_by):
            is_switch = values[value].get("type") == "boolean"
            assert set(choices) <= ({"true"} if is_switch else set(values[value]["enum"]))


def test_stale_files_are_found(tmp_path: Path):
    assert generate.list_stale(tmp_path) == list(generate.build_files())
