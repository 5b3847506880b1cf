"""Reconcile of all SyncRules: their conditions, and the tenants that use them.

Owns the status of each SyncRule. Must not know objects of ruled kinds. Hazard: a rule may be Ready
only while the syncer has its rights. Otherwise its watch is refused, again and again.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from kubeio import Object, errors
from kubeio.controller.worker import RequeueAfter, Result
from tenancy import conditions, wellknown
from tenancy.resources import CLUSTER_ROLES, SYNC_RULES, VIRTUAL_CLUSTERS
from tenancy.specs import InvalidSpecError
from tenancy.sync_rules.checks import RuleProblem
from tenancy.sync_rules.specs import SyncRule, parse_sync_rule
from vcmanager.phases.sync_rules import fetch_definition, parse_rules
from vcmanager.plan.custom_kinds import sync_rules
from vcmanager.runtime import keys
from vcmanager.runtime.context import RESYNC_SECONDS, ReconcileContext
from vcmanager.runtime.keys import ReconcileKey

_DEFINITION_SECONDS = 60.0
"""Interval in seconds of checks of CRDs, which are not watched."""
_WAITING_SECONDS = 5.0
"""The same interval while a rule waits for its CRD or its rights."""


async def reconcile_sync_rules(means: ReconcileContext, _key: ReconcileKey) -> Result:
    """Update every status. Queue all tenants after a change of the usable rules."""
    super_client = means.super_client
    bodies: list[Object] = (await super_client.list(SYNC_RULES)).get("items") or []
    rules = parse_rules(bodies)
    by_name = {rule.name: rule for rule in rules}
    results: dict[str, RuleProblem | None] = {}
    definitions: dict[str, Object | None] = {}
    granted = await _fetch_granted(means) if rules else []
    for body in bodies:
        rule = by_name.get(body["metadata"]["name"])
        if rule is None:
            results[body["metadata"]["name"]] = _describe_invalid(body)
            continue
        definitions[rule.name] = await fetch_definition(super_client, rule)
        results[rule.name] = sync_rules.decide_problem(
            rule, rules, definitions.get(rule.name)
        ) or sync_rules.find_missing_rights(rule, granted)
    usable = [rule for rule in rules if results[rule.name] is None]
    for body in bodies:
        rule = by_name.get(body["metadata"]["name"])
        if rule is not None:
            await _ensure_finalizer(means, body, rule)
        await _write_status(means, body, results[body["metadata"]["name"]])
    await _queue_tenants(means, usable, definitions)
    if len(usable) < len(bodies):
        return RequeueAfter(_WAITING_SECONDS)
    return RequeueAfter(_DEFINITION_SECONDS if bodies else RESYNC_SECONDS)


def _describe_invalid(body: Object) -> RuleProblem:
    try:
        parse_sync_rule(body)
    except InvalidSpecError as problem:
        return RuleProblem("InvalidSpec", f"{problem}. Correct the SyncRule.")
    return RuleProblem("InvalidSpec", "The SyncRule cannot be read. Correct it.")


async def _fetch_granted(means: ReconcileContext) -> list[Object]:
    """Return the PolicyRules of the aggregated ClusterRole that the chart binds to the syncer."""
    try:
        found = await means.super_client.get(CLUSTER_ROLES, wellknown.SYNCER_RULES_ROLE)
    except errors.NotFound:
        return []
    granted: list[Object] = found.get("rules") or []
    return granted


async def _ensure_finalizer(means: ReconcileContext, body: Object, rule: SyncRule) -> None:
    """Add the finalizer of a rule whose copies are deleted before it. The syncer removes it."""
    held = body["metadata"].get("finalizers") or []
    if rule.is_deleting or rule.spec.removal_policy != "Delete":
        return
    if wellknown.SYNC_RULE_FINALIZER not in held:
        patch = {
            "metadata": {
                "uid": body["metadata"]["uid"],
                "resourceVersion": body["metadata"]["resourceVersion"],
                "finalizers": [*held, wellknown.SYNC_RULE_FINALIZER],
            }
        }
        await means.super_client.patch(
            SYNC_RULES, rule.name, patch, field_manager=wellknown.MANAGER
        )


async def _write_status(means: ReconcileContext, body: Object, problem: RuleProblem | None) -> None:
    metadata = body["metadata"]
    old = (body.get("status") or {}).get("conditions")
    fresh = conditions.build_condition(
        wellknown.READY,
        "False" if problem is not None else "True",
        problem.reason if problem is not None else sync_rules.SERVED,
        problem.message
        if problem is not None
        else "Tenants whose TenantPolicy selects the rule may use the kind.",
        now=conditions.format_time(means.now()),
        generation=metadata.get("generation", 0),
    )
    wanted = conditions.carry_transition_times(old, [fresh])
    if wanted == old:
        return
    await means.super_client.apply(
        SYNC_RULES,
        {
            "apiVersion": SYNC_RULES.api_version,
            "kind": SYNC_RULES.kind,
            "metadata": {"name": metadata["name"]},
            "status": {"conditions": wanted},
        },
        field_manager=wellknown.MANAGER,
        subresource="status",
    )


async def _queue_tenants(
    means: ReconcileContext, usable: list[SyncRule], definitions: Mapping[str, Any]
) -> None:
    """Queue every tenant if the usable rules or their CRDs have changed."""
    parts = [
        (
            rule.name,
            msgspec.to_builtins(rule.spec),
            dict(rule.labels),
            (definitions.get(rule.name) or {}).get("spec"),
        )
        for rule in sorted(usable, key=lambda rule: rule.name)
    ]
    digest = hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()
    if means.rule_digests.get("") == digest or ("" not in means.rule_digests and not usable):
        means.rule_digests[""] = digest
        return
    means.rule_digests[""] = digest
    for cluster in (await means.super_client.list(VIRTUAL_CLUSTERS)).get("items") or ():
        means.enqueue(keys.build_key_of_listed(cluster))
