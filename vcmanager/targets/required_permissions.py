"""Permissions that a credential needs in a target, and the missing ones.

Owns how RBAC rules are read. Pure. Must not know the purpose of a right: the generated role records
it. Hazard: an authorizer other than RBAC does not list what it allows, so an unlisted right may
still be granted. The caller must check each unlisted right with a separate request.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import yaml

from clusterversions import catalog
from tenancy.super_clusters import AccessMode

PolicyRule = Mapping[str, Any]
_WILDCARD = "*"


class RequiredPermission(NamedTuple):
    """One verb on one kind, in every namespace."""

    group: str
    resource: str
    """Plural, with a slash for a subresource."""
    verb: str

    @property
    def kubectl_name(self) -> str:
        """Return the kind as kubectl spells it: `pods/log`, `networkpolicies.networking.k8s.io`."""
        plural, slash, subresource = self.resource.partition("/")
        return f"{plural}.{self.group}{slash}{subresource}" if self.group else self.resource

    def build_review(self) -> dict[str, Any]:
        """Return the SelfSubjectAccessReview that asks for it."""
        plural, _, subresource = self.resource.partition("/")
        asked = {"group": self.group, "resource": plural, "verb": self.verb}
        return {"spec": {"resourceAttributes": asked | {"subresource": subresource}}}


@cache
def list_required() -> tuple[RequiredPermission, ...]:
    """Return the rights of the role for targets, in its order."""
    return list_granted(yaml.safe_load(catalog.read_target_role())["rules"])


@cache
def list_required_by_agent(mode: AccessMode) -> tuple[RequiredPermission, ...]:
    """Return the rights of the role for the agent in a mode, in its order."""
    return list_granted(yaml.safe_load(catalog.read_target_agent_role(mode))["rules"])


def list_granted(rules: Iterable[PolicyRule]) -> tuple[RequiredPermission, ...]:
    """Return the rights that rules without wildcards and names grant."""
    return tuple(
        RequiredPermission(group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


def list_missing(
    wanted: Iterable[RequiredPermission], rules: Sequence[PolicyRule]
) -> list[RequiredPermission]:
    """Return the rights that no rule of a SelfSubjectRulesReview grants."""
    return [right for right in wanted if not any(_is_granted_by(rule, right) for rule in rules)]


def format_missing(lacking: Iterable[RequiredPermission]) -> str:
    """Return missing rights by kind: `pods: create, delete; secrets: list`."""
    by_kind: dict[str, list[str]] = {}
    for right in lacking:
        by_kind.setdefault(right.kubectl_name, []).append(right.verb)
    return "; ".join(f"{kind}: {', '.join(verbs)}" for kind, verbs in by_kind.items())


def _is_granted_by(rule: PolicyRule, right: RequiredPermission) -> bool:
    if rule.get("resourceNames"):
        return False  # a right to named objects is not a right to all
    _, slash, subresource = right.resource.partition("/")
    resources = {right.resource, _WILDCARD, *([f"*/{subresource}"] if slash else [])}
    return (
        bool(resources & {*(rule.get("resources") or ())})
        and bool({right.group, _WILDCARD} & {*(rule.get("apiGroups") or ())})
        and bool({right.verb, _WILDCARD} & {*(rule.get("verbs") or ())})
    )
