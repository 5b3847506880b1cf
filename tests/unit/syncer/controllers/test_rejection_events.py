"""Events that report a refusal to the tenant."""

from __future__ import annotations

import pytest

from kubeio import errors
from syncer.controllers import rejection_events
from syncer.rules import registry
from tests.support.kubeio.described_requests import REQUEST
from tests.support.syncer.sessions import CONTAINERS, SessionWorld


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('pods "p" is forbidden: exceeded quota: gold, used: cpu=9', "is used up"),
        (
            "pods p is forbidden: ValidatingAdmissionPolicy 'virtual-cluster-syncer-levels' says",
            "not in effect yet",
        ),
        (
            'admission webhook "secret.example" denied the request: no',
            "object. Contact your platform administrator",
        ),
        (
            'pods "p" is forbidden: violates PodSecurity "baseline:latest": host namespaces',
            'violates PodSecurity "baseline:latest": host namespaces',
        ),
    ],
)
async def test_a_refusal_is_reported_without_what_refused(said, told):
    """REL-36, REL-43, V-10."""
    world = SessionWorld()
    entry = world.tenant_has("Pod", "p", spec={"containers": CONTAINERS})
    problem = errors.Forbidden(said, request=REQUEST, status=403)
    await rejection_events.report_failed(
        registry.KINDS_BY_NAME["Pod"], entry, problem, world.session
    )
    message = world.above.bodies[-1]["message"]
    assert told in message
    assert not any(name in message for name in ("gold", "secret.example"))
