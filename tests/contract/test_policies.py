"""The CRD of TenantPolicy, its typed view and the shipped objects say the same."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
import pytest
import yaml

from tenancy import policies
from tenancy.policies import BASELINE_POLICY, TenantPolicySpec
from tenancy.policy.quotas import parse_hard
from tests.support.helm import named, render

CRD = Path("charts/virtual-cluster/files/crds/tenantpolicies.yaml")


def schema() -> dict[str, Any]:
    crd = yaml.safe_load(CRD.read_text())
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]


def defaulted(node: dict[str, Any], value: Any) -> Any:
    """Return a value with the defaults of a schema, as an API server fills them in."""
    if not isinstance(value, dict):
        return value
    filled = dict(value)
    for name, inside in node.get("properties", {}).items():
        if name not in filled and "default" in inside:
            filled[name] = inside["default"]
        if name in filled:
            filled[name] = defaulted(inside, filled[name])
    return filled


def plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    return msgspec.json.decode(msgspec.json.encode(value))


def compared(node: dict[str, Any], view: type, path: str) -> int:
    """Compare a schema with a struct to the last leaf. Returns how many leaves there are."""
    fields = {each.encode_name: each for each in msgspec.structs.fields(view)}
    assert set(node["properties"]) == set(fields), path
    assert not node.get("required"), path
    leaves = 0
    for name, field in fields.items():
        inside, where = node["properties"][name], f"{path}.{name}"
        kind = field.type
        assert "default" in inside, where
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            assert inside["type"] == "object", where
            given = defaulted(inside, inside["default"])
            assert msgspec.convert(given, kind) == field.default, where
            leaves += compared(inside, kind, where)
            continue
        leaves += 1
        assert get_origin(kind) is not types.UnionType, where
        default = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        assert plain(default) == inside["default"], where
        if get_origin(kind) is Literal:
            assert inside["enum"] == [*get_args(kind)], where
        if get_origin(kind) is tuple and get_origin(get_args(kind)[0]) is Literal:
            assert inside["items"]["enum"] == [*get_args(get_args(kind)[0])], where
        if kind == policies.TenantWeight:
            assert (inside["type"], inside["minimum"], inside["maximum"]) == ("integer", 1, 16)
            continue
        expected = {bool: "boolean", tuple: "array", dict: "object"}
        assert inside["type"] == expected.get(get_origin(kind) or kind, "string"), where
    return leaves


def test_the_schema_and_the_view_have_the_same_fields_enumerations_and_defaults():
    assert compared(schema(), TenantPolicySpec, "spec") > 30
    assert msgspec.convert(defaulted(schema(), {}), TenantPolicySpec) == BASELINE_POLICY


def test_every_parent_is_defaulted_so_that_an_object_shows_all_fields():
    assert defaulted(schema(), {}) == plain(BASELINE_POLICY)


@pytest.fixture(scope="module")
def shipped():
    return render()


def spec_of(objects: list[dict[str, Any]], name: str) -> TenantPolicySpec:
    given = named(objects, "TenantPolicy", name)["spec"]
    filled = defaulted(schema(), given)
    known = plain(msgspec.convert(filled, TenantPolicySpec))
    assert known == filled, "a shipped object has a field that nobody knows"
    return policies.parse_tenant_policy({"metadata": {"name": name}, "spec": filled})


def test_baseline_is_the_built_in_default(shipped):
    assert spec_of(shipped, policies.DEFAULT_POLICY_NAME) == BASELINE_POLICY


def test_restricted_hides_more_and_allows_less_than_baseline(shipped):
    found = spec_of(shipped, "restricted")
    assert found.security.level == "restricted"
    assert found.nodes.view == "Minimal"
    assert found.network.service_types == ("ClusterIP", "LoadBalancer")
    assert found.sync == BASELINE_POLICY.sync
    assert found.storage == BASELINE_POLICY.storage
    assert found.quota.keys() > BASELINE_POLICY.quota.keys()
    limits, before = parse_hard(found.quota), parse_hard(BASELINE_POLICY.quota)
    assert all(limits[name] < before[name] for name in before)


def test_a_limit_of_restricted_is_changed_and_removed_by_values():
    quota = "tenantPolicies.items.restricted.quota"
    changed = render(
        *("--set", f"{quota}.pods=7", "--set", f"{quota}.requests\\.nvidia\\.com/gpu=0"),
        *("--set", f"{quota}.services=null"),
    )
    found = spec_of(changed, "restricted").quota
    assert (found["pods"], found["requests.nvidia.com/gpu"]) == (7, 0)
    assert "services" not in found
    assert found["requests.storage"] == "500Gi"


def test_trusted_stays_at_the_baseline_level_and_opens_the_rest(shipped):
    found = spec_of(shipped, "trusted")
    assert found.security.level == "baseline"
    assert (found.sync.config_maps, found.sync.secrets) == ("All", "All")
    assert found.sync.blocking_disruption_budgets == "Allow"
    assert found.sync.priority_classes.matches("any", {})
    assert found.sync.runtime_classes.matches("any", {})
    assert (found.network.host_ports, found.storage.image_volumes) == ("Allow", "Allow")
    assert found.nodes.view == "Full"
    assert found.pods.reserved_container_names == ()
    assert found.network.ingress_annotations == ("nginx", "traefik", "cert-manager")


def test_conformance_is_what_the_suite_needs(shipped):
    found = spec_of(shipped, "conformance")
    assert found.security.level == "privileged"
    assert (found.nodes.view, found.nodes.expose) == ("Full", "all")
    assert (found.sync.config_maps, found.sync.secrets) == ("All", "All")
    assert (found.network.host_ports, found.network.node_dns) == ("Allow", "Allow")
    for classes in (found.sync.priority_classes, found.sync.runtime_classes):
        assert classes.matches("any", {})


def test_no_policy_is_shipped_where_none_is_wanted():
    bare = render("--set", "tenantPolicies.install=false")
    assert not [each for each in bare if each["kind"] == "TenantPolicy"]
