"""Decisions about SyncRules: whether one is usable, and the CRD that its tenants get.

Pure. Must not know clients. Hazard: a copied CRD must have no conversion webhook and no CA of the
super cluster. The tenant's API server would send the tenant's objects to it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kubeio import Object
from tenancy import wellknown
from tenancy.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CUSTOM_RESOURCE_DEFINITIONS
from tenancy.sync_rules import rights
from tenancy.sync_rules.checks import RuleProblem, find_problem
from tenancy.sync_rules.specs import SyncRule

SERVED = "Served"
"""Reason of the condition Ready with the status True."""
APPROVED_ANNOTATION = "api-approved.kubernetes.io"
"""Annotation without which an API server refuses CRDs in groups of Kubernetes."""


def decide_problem(
    rule: SyncRule, rules: Iterable[SyncRule], definition: Mapping[str, Any] | None
) -> RuleProblem | None:
    """Return why a rule cannot be used, or None.

    `definition` is the CRD in the super cluster. For a built-in kind it is the kind's APIResource,
    as discovery shows it. None: there is none.
    """
    problem = find_problem(rule, rules)
    if problem is not None:
        return problem
    if rule.spec.definition == "BuiltIn":
        return _find_built_in_problem(rule, definition)
    name = build_definition_name(rule)
    if definition is None:
        return RuleProblem(
            "DefinitionMissing",
            f"The super cluster has no CustomResourceDefinition {name}. Create it, or set"
            " spec.definition to BuiltIn for a kind of the API server itself.",
        )
    return _find_definition_problem(rule, definition)


def _find_built_in_problem(
    rule: SyncRule, api_resource: Mapping[str, Any] | None
) -> RuleProblem | None:
    resource = rule.resource
    if api_resource is None:
        return RuleProblem(
            "VersionNotServed",
            "spec.resource: the API server of the super cluster does not serve"
            f" {resource.plural} in {resource.api_version}. Use a version that it serves.",
        )
    scope = "Namespaced" if api_resource.get("namespaced") else "Cluster"
    return _find_mismatch(rule, scope, str(api_resource.get("kind")))


def _find_mismatch(rule: SyncRule, scope: str, kind: str) -> RuleProblem | None:
    name = build_definition_name(rule)
    if scope != ("Namespaced" if rule.is_namespaced else "Cluster"):
        remedy = (
            "Only kinds with namespaces are copied to the super cluster. Delete the rule."
            if rule.is_down
            else "Set spec.mirror for a kind with namespaces, and remove it for any other."
        )
        return RuleProblem(
            "ScopeNotSupported", f"spec.resource: the scope of {name} is {scope}. {remedy}"
        )
    if kind != rule.resource.kind:
        return RuleProblem(
            "InvalidSpec", f"spec.resource.kind: {name} defines the kind {kind}. Use that."
        )
    return None


def _find_definition_problem(rule: SyncRule, definition: Mapping[str, Any]) -> RuleProblem | None:
    name = build_definition_name(rule)
    spec = definition["spec"]
    problem = _find_mismatch(rule, str(spec.get("scope")), str(spec["names"].get("kind")))
    if problem is not None:
        return problem
    version = find_version(definition, rule.resource.version)
    if version is None or not version.get("served"):
        return RuleProblem(
            "VersionNotServed",
            f"spec.resource.version: {name} does not serve {rule.resource.version}. Use a version"
            " that it serves.",
        )
    if rule.shows_status and "status" not in (version.get("subresources") or {}):
        return RuleProblem(
            "StatusNotSupported",
            f"spec.statusFields: {rule.resource.version} of {name} has no status subresource."
            " Remove spec.statusFields.",
        )
    return None


def build_definition_name(rule: SyncRule) -> str:
    """Return the name of the CRD of a rule's kind."""
    return f"{rule.resource.plural}.{rule.resource.group}"


def find_version(definition: Mapping[str, Any], version: str) -> Mapping[str, Any] | None:
    """Return a version of a CRD, or None."""
    found = definition["spec"].get("versions") or ()
    return next((each for each in found if each.get("name") == version), None)


def build_tenant_definition(definition: Mapping[str, Any], rule: SyncRule) -> Object:
    """Return the CRD for a tenant: the rule's version alone, without conversion."""
    spec, annotations = definition["spec"], definition["metadata"].get("annotations") or {}
    version = find_version(definition, rule.resource.version)
    approved = {key: annotations[key] for key in (APPROVED_ANNOTATION,) if key in annotations}
    return {
        "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITIONS.kind,
        "metadata": {
            "name": definition["metadata"]["name"],
            "labels": {wellknown.BOOTSTRAP: "true"},
            **({"annotations": approved} if approved else {}),
        },
        "spec": {
            "group": spec["group"],
            "names": {key: value for key, value in spec["names"].items() if key != "categories"},
            "scope": spec["scope"],
            "versions": [{**dict(version or {}), "served": True, "storage": True}],
        },
    }


def has_equal_schema(own: Mapping[str, Any], definition: Mapping[str, Any], rule: SyncRule) -> bool:
    """Return whether a tenant's CRD has the same scope and schema in the rule's version."""
    here, there = (find_version(each, rule.resource.version) for each in (own, definition))
    return (
        here is not None
        and there is not None
        and own["spec"].get("scope") == definition["spec"].get("scope")
        and bool(here.get("served"))
        and all(
            (here.get(field) or {}) == (there.get(field) or {})
            for field in ("schema", "subresources")
        )
    )


def is_own_definition(own: Mapping[str, Any]) -> bool:
    """Return whether vc-manager has written a tenant's CRD."""
    return wellknown.BOOTSTRAP in (own["metadata"].get("labels") or {})


def find_missing_rights(rule: SyncRule, granted: Iterable[Object]) -> RuleProblem | None:
    """Return that the syncer lacks rights to a rule's kind, or None."""
    wanted = rights.build_super_rules([rule])
    if rights.is_granted(wanted, granted):
        return None
    return RuleProblem(
        "RightsMissing",
        "The syncer has no rights to the kind in the super cluster. Create a ClusterRole with the"
        f" label {wellknown.AGGREGATE_TO_SYNCER}=true and the rules"
        f" {msgspec.json.encode(wanted).decode()}.",
    )


def build_tenant_grant(rules: Iterable[SyncRule]) -> list[Object]:
    """Return the ClusterRole of the syncer in a tenant, and its binding."""
    name, labels = wellknown.SYNCER_RULES_ROLE, {wellknown.BOOTSTRAP: "true"}
    metadata = {"name": name, "labels": labels}
    return [
        {
            "apiVersion": CLUSTER_ROLES.api_version,
            "kind": CLUSTER_ROLES.kind,
            "metadata": metadata,
            "rules": rights.build_tenant_rules(rules),
        },
        {
            "apiVersion": CLUSTER_ROLE_BINDINGS.api_version,
            "kind": CLUSTER_ROLE_BINDINGS.kind,
            "metadata": metadata,
            "roleRef": {"apiGroup": CLUSTER_ROLES.group, "kind": "ClusterRole", "name": name},
            "subjects": [
                {"apiGroup": CLUSTER_ROLES.group, "kind": "User", "name": wellknown.SYNCER_USER}
            ],
        },
    ]
