"""Identity of a cluster: the UID of kube-system proves which cluster has answered."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio import errors
from kubeio.controller.worker import NotReadyYet
from syncer.safety.cluster_identity import ClusterIdentity
from tests.support.syncer.sessions import RecordingClient

IDENTITY = "kube-system-of-c2"


def anchored(uid: str | None, clock: Any) -> tuple[ClusterIdentity, RecordingClient]:
    """Return the anchor of a target that has this kube-system."""
    api = RecordingClient()
    if uid is not None:
        api.has("Namespace", "kube-system", {"metadata": {"uid": uid}})
    made = ClusterIdentity(api, name="c2", identity=IDENTITY, clock=clock)  # type: ignore[arg-type]
    return made, api


async def test_the_anchor_holds_only_when_it_was_looked_at_after_what_it_is_to_prove():
    now = 10.0
    anchor, api = anchored(IDENTITY, lambda: now)
    await anchor.verify_identity(9.0)
    await anchor.verify_identity(10.0)
    assert len(api.asked) == 1, "one look proves all that was read before it"
    now = 11.0
    await anchor.verify_identity(10.5)
    assert len(api.asked) == 2


@pytest.mark.parametrize("uid", ["another", None])
async def test_another_cluster_proves_nothing(uid: str | None):
    anchor, _ = anchored(uid, lambda: 10.0)
    with pytest.raises(NotReadyYet, match="another cluster answers for c2"):
        await anchor.verify_identity(9.0)
    with pytest.raises(NotReadyYet):
        await anchor.verify_identity(9.0)


async def test_a_cluster_that_does_not_answer_proves_nothing():
    anchor, api = anchored(IDENTITY, lambda: 10.0)
    api.refusals["get Namespace"] = errors.Unavailable("silent")
    with pytest.raises(errors.Unavailable):
        await anchor.verify_identity(9.0)
