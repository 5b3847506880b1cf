"""Pod Security Standard `restricted` without a cluster."""

from typing import Any

import pytest

from kubectl_vc.policy.pod_security import find_violations

GOOD: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def spec(**changed: Any) -> dict[str, Any]:
    """Return the spec of a restricted pod with a changed security context of its container."""
    context = {key: value for key, value in {**GOOD, **changed}.items() if value is not None}
    return {"containers": [{"name": "c", "securityContext": context}]}


def test_restricted_pod_has_no_violation():
    assert find_violations(spec()) == []
    assert find_violations(spec(capabilities={"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]})) == []


def test_context_of_the_pod_applies_to_containers():
    body = spec(runAsNonRoot=None, seccompProfile=None)
    body["securityContext"] = {key: GOOD[key] for key in ("runAsNonRoot", "seccompProfile")}
    assert find_violations(body) == []


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"allowPrivilegeEscalation": None}, "allowPrivilegeEscalation"),
        ({"capabilities": None}, "capabilities.drop"),
        ({"capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}}, "capabilities.add"),
        ({"runAsNonRoot": False}, "runAsNonRoot"),
        ({"runAsUser": 0}, "runAsUser"),
        ({"seccompProfile": {"type": "Unconfined"}}, "seccompProfile"),
    ],
)
def test_violation_names_its_field(changed, field):
    [found] = find_violations(spec(**changed))
    assert found.startswith(f"containers[0].securityContext.{field}")


def test_pod_fields_are_checked():
    body = {**spec(), "securityContext": {"runAsUser": 0}, "volumes": [{"name": "v", "nfs": {}}]}
    assert len(find_violations(body)) == 2
