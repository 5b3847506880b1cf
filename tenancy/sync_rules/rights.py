"""Rights of the syncer for SyncRules, in the super cluster and in a tenant.

Pure. A platform administrator grants those of the super cluster, and vc-manager those of a tenant.
Hazard: the rules must contain only kinds of usable SyncRules. They limit what a tenant can make the
syncer write.
"""

from collections.abc import Iterable
from typing import Any

from tenancy.resources import CUSTOM_RESOURCE_DEFINITIONS
from tenancy.sync_rules.specs import SyncRule
from tenancy.sync_rules.status_rules import get_built_in_kind

_READ = ["get", "list", "watch"]
_WRITE = [*_READ, "create", "update", "delete"]


def build_super_rules(rules: Iterable[SyncRule]) -> list[dict[str, Any]]:
    """Return the PolicyRules of the syncer in the super cluster."""
    ordered = sorted(rules, key=lambda rule: rule.name)
    return [
        *(_build_rule(rule, "", _WRITE if rule.is_down else _READ) for rule in ordered),
        *_build_definition_rules(ordered),
    ]


def build_tenant_rules(rules: Iterable[SyncRule]) -> list[dict[str, Any]]:
    """Return the PolicyRules of the syncer in a tenant that these rules apply to."""
    ordered = sorted(rules, key=lambda rule: rule.name)
    return [
        *(_build_rule(rule, "", _READ if rule.is_down else _WRITE) for rule in ordered),
        *(
            _build_rule(rule, f"/{name}", ["patch"])
            for rule in ordered
            if rule.shows_status
            for name in ("status", *get_built_in_kind(rule.resource).status_subresources)
        ),
        *_build_definition_rules(ordered),
    ]


def is_granted(wanted: Iterable[dict[str, Any]], granted: Iterable[dict[str, Any]]) -> bool:
    """Return whether each wanted PolicyRule is covered by granted ones, verb by verb."""
    held = list(granted)
    return all(
        any(
            group in (each.get("apiGroups") or ())
            and resource in (each.get("resources") or ())
            and verb in (each.get("verbs") or ())
            and (not each.get("resourceNames") or name in each["resourceNames"])
            for each in held
        )
        for rule in wanted
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames") or ("",)
    )


def _build_rule(rule: SyncRule, suffix: str, verbs: list[str]) -> dict[str, Any]:
    return {
        "apiGroups": [rule.resource.group],
        "resources": [f"{rule.resource.plural}{suffix}"],
        "verbs": list(verbs),
    }


def _build_definition_rules(rules: Iterable[SyncRule]) -> list[dict[str, Any]]:
    found = [
        f"{rule.resource.plural}.{rule.resource.group}"
        for rule in rules
        if rule.spec.definition != "BuiltIn"
    ]
    if not found:
        return []
    return [
        {
            "apiGroups": [CUSTOM_RESOURCE_DEFINITIONS.group],
            "resources": [CUSTOM_RESOURCE_DEFINITIONS.plural],
            "resourceNames": found,
            "verbs": list(_READ),
        }
    ]
