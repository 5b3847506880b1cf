"""Refused objects: one Event soon, no copy in the super cluster, and no busy loop.

All cases run in one world, first all that are refused and then their neighbours, so that the
waiting is done once. Each test then looks at what became of its own.
"""

from __future__ import annotations

import asyncio
import json
import re
import statistics
from collections.abc import Mapping
from typing import Any

import pytest

from kubeio import Object
from syncer.model import field_rules
from syncer.model.field_rules import AllowValues, FieldWalk, RefuseField
from syncer.model.rejections import SYNC_REJECTED
from syncer.rbac import SUPER_RBAC_RULES
from syncer.rules import field_rule_tables
from syncer.rules.registry import KINDS
from syncer.rules.tenant_resources import OPTIONAL_RESOURCES, WATCHED_RESOURCES
from tests.integration.syncer.negative_list import CASES
from tests.integration.syncer.negative_list.cases import (
    RefusedCase,
)
from tests.integration.syncer.negative_list.rewrites import (
    MISSING,
    REWRITES,
    FieldPath,
    RewrittenObject,
)
from tests.integration.syncer.negative_list.rows import ELSEWHERE, ROWS
from tests.integration.syncer.negative_list.runner import PATIENCE, ListResult, ListRun
from tests.support.controlplane import LocalControlPlane
from tools.testbed.artifacts import product

pytestmark = pytest.mark.thorough

REPOSITORY = product.REPOSITORY
_RULE = re.compile(r'(?:Problem|Refuse|Only|_no_volume)\(\s*"([a-z-]+)"')
NOT_HERE = {
    "node-dns": "in a target without resolvers; unit/syncer/rules/pods/test_dns.py",
    "malformed": "the API server refuses what has no shape by itself",
    "unknown-field": "the API server leaves out what it does not know",
    "volume-mount": "the API server refuses it by itself",
    "target-container": "the API server refuses it by itself",
    "name-taken": "needs a stranger: test_a_foreign_pod_of_the_same_name_is_never_touched",
    "host-taken": "so does this: test_a_host_that_another_owner_has_is_refused_until_it_is_free",
    "target": "needs another super cluster; a unit test has it",
    "budget-overlap": "needs another: test_a_pod_has_one_budget_and_the_next_one_when_that_is_gone",
    "too-many-budgets": "needs a hundred others; a unit test has them",
    "eviction-responders": "a field of Kubernetes 1.37; unit/syncer/rules/pods/test_pod_build.py",
    "endpoints": "needs a policy without them; unit/syncer/rules/network/test_endpoint_slices.py",
    "hosts-file": "needs a policy with an image; a unit test has it",
    "host-users": "needs a policy that forbids them; unit/syncer/rules/nodes/test_node_pool.py",
    "memory-volume": "needs a policy with a limit; unit/syncer/rules/pods/test_size_limits.py",
    "node-pool": "needs a policy with a pool; unit/syncer/rules/nodes/test_node_pool.py",
}
"""Rules that no object of this list can break."""
NOT_YET = {
    f"Pod spec.{kind}[].volumeMounts[].bindMountOptions"
    for kind in ("containers", "initContainers", "ephemeralContainers")
}
"""Leaves of Kubernetes 1.37. The tenant's API server of the default minor leaves them out, and the
unit test of the table has them: `unit/syncer/rules/pods/test_pod_fields.py`."""
_PROBLEM = re.compile(r"(?:^|\. )((?:(?!\(rule ).)+) \(rule ([a-z-]+)\)", re.DOTALL)


@pytest.fixture(scope="module")
def result(super_plane: LocalControlPlane, tmp_path_factory: pytest.TempPathFactory) -> ListResult:
    """Run all cases."""
    found = asyncio.run(ListRun(super_plane, tmp_path_factory.mktemp("negative") / "tenant").all())
    times = sorted(o.seconds for o in found.outcomes.values() if o.seconds is not None)
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    print(
        f"\n{len(times)} Events: median {cuts[49]:.3f} s, 90% within {cuts[89]:.3f} s,"
        f" 99% within {cuts[98]:.3f} s, slowest {times[-1]:.3f} s;"
        f" {sum(second <= 1 for second in times)} within a second"
    )
    return found


BY_CASE = pytest.mark.parametrize("case", CASES, ids=str)


@BY_CASE
def test_a_refused_object_is_reported_once_and_stays_in_the_tenant(
    result: ListResult, case: RefusedCase
):
    outcome = result.outcomes[str(case)]
    assert bool(outcome.tenant_refusal) is case.tenant_api_refuses, outcome.tenant_refusal
    if case.tenant_api_refuses:
        assert case.rule in _rules_of_table(case)
    else:
        assert outcome.seconds is not None, f"no Event within {PATIENCE} seconds"
        event = _one(outcome.told)
        assert (event["reason"], event["type"]) == (SYNC_REJECTED, "Warning")
        _check_message(event["message"], case, result.hidden)
    assert not outcome.is_in_super
    if case.tried:
        assert outcome.tried
        assert [write for write in outcome.tried if not write.endswith(" 403")] == []
    else:
        assert outcome.tried == []
    assert outcome.neighbour == ""


def _one(events: list[Object]) -> Object:
    assert len(events) == 1, [event["message"] for event in events]
    return events[0]


def _check_message(message: str, case: RefusedCase, hidden: tuple[str, ...]) -> None:
    problems = _PROBLEM.findall(message)
    mine = [text for text, rule in problems if rule == case.rule and text.startswith(case.path)]
    assert mine, message
    assert all(". " in text or "use " in text for text in mine), f"no remedy: {message}"
    assert not [word for word in hidden if word in message]


def _rules_of_table(case: RefusedCase) -> set[str]:
    """Return the rules by which the verdict table alone refuses a body."""
    kind, found = case.resource.kind, FieldWalk()
    for part in field_rule_tables.DOWNWARD_TABLES[kind]:
        if part.path == "spec":
            found.walk_fields(case.bad["spec"], part.table, part.path)
        elif part.path.startswith("spec.ephemeralContainers"):
            for item in case.bad["spec"].get("ephemeralContainers") or ():
                found.walk_fields(item, part.table, part.path)
    return {problem.rule for problem in found.problems}


@pytest.mark.parametrize("each", REWRITES, ids=str)
def test_what_goes_down_as_something_else(result: ListResult, each: RewrittenObject):
    written = result.rewritten[each.number]
    assert written.twin, [event["message"] for event in written.told]
    words = {**result.words, "@name": written.name, "@uid": written.uid}
    for place, expected in each.has.items():
        wanted, found = _spelled(expected, words), _at(written.twin, place)
        if wanted == "@another":
            asked = _at(each.body, place)
            assert found not in (MISSING, asked)
        elif isinstance(wanted, dict) and isinstance(found, dict):
            assert wanted.items() <= found.items(), place  # the API server fills in the rest
        else:
            assert found == wanted, place
    rules = {rule for event in written.told for _, rule in _PROBLEM.findall(event["message"])}
    assert rules == ({each.told} if each.told else set())


def _spelled(value: Any, words: Mapping[str, str]) -> Any:
    text = json.dumps(value)
    for word, meaning in words.items():
        text = text.replace(word, meaning)
    return json.loads(text)


def _at(body: Any, place: FieldPath) -> Any:
    for step in place:
        try:
            body = body[step]
        except (KeyError, IndexError, TypeError):
            return MISSING
    return body


def test_what_never_goes_down_is_not_even_watched():
    """The syncer may create none of them in the super cluster either."""
    watched = {resource.kind for resource, _, _ in WATCHED_RESOURCES} | {
        kind.kind for kind in OPTIONAL_RESOURCES
    }
    made = {
        resource for row in SUPER_RBAC_RULES for resource in row.resources if "create" in row.verbs
    }
    made -= {"limitranges", "resourcequotas", "rolebindings"}  # the syncer's own, as the gate says
    never = {
        "CSINode": "csinodes",
        "CertificateSigningRequest": "certificatesigningrequests",
        "ClusterRole": "clusterroles",
        "ClusterRoleBinding": "clusterrolebindings",
        "CustomResourceDefinition": "customresourcedefinitions",
        "Event": "events",
        "Gateway": "gateways",
        "HTTPRoute": "httproutes",
        "LimitRange": "limitranges",
        "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
        "ReferenceGrant": "referencegrants",
        "ResourceQuota": "resourcequotas",
        "Role": "roles",
        "RoleBinding": "rolebindings",
        "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
    }
    assert watched & never.keys() == set()
    assert made & set(never.values()) == set()
    down = {kind.resource.kind for kind in KINDS}
    assert down & {"Lease", "Node", "ServiceAccount", "StorageClass"} == set()


def test_nothing_runs_hot(result: ListResult):
    assert result.heat == []


def test_every_leaf_that_is_refused_has_a_case():
    proved = {case.leaf for case in CASES if case.leaf}
    refused = {
        f"{kind} {path}"
        for kind, parts in field_rule_tables.DOWNWARD_TABLES.items()
        for part in parts
        for path, verdict in field_rules.iterate_leaf_paths(part.table, part.path)
        if isinstance(verdict, RefuseField | AllowValues)
    }
    assert refused - proved == NOT_YET
    assert proved - refused == set()


def test_every_row_of_the_policy_is_proved():
    proved = {case.row for case in CASES} | {each.row for each in REWRITES} | ELSEWHERE.keys()
    assert proved == set(ROWS)
    for test in ELSEWHERE.values():
        path, _, name = test.partition("::")
        assert f"def {name}(" in (REPOSITORY / path).read_text()


def test_every_rule_of_a_rejection_has_a_case():
    """The rules in the code, but for those that tell of something and refuse nothing."""
    rules = {
        rule
        for path in (REPOSITORY / "syncer").rglob("*.py")
        for rule in _RULE.findall(path.read_text())
    }
    proved = {case.rule for case in CASES} | {each.told for each in REWRITES if each.told}
    assert rules - proved - NOT_HERE.keys() == set()
    assert NOT_HERE.keys() - rules == set()
