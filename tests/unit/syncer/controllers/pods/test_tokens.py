"""Reconciler of service account tokens: renewed at half of their life."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kubeio.controller.worker import RequeueAfter
from syncer.controllers.pods import tokens
from syncer.model.keys import Key
from syncer.model.references import ACCOUNT_TOKEN, ObjectReference
from syncer.rules.pods.token_specs import TokenSpec
from syncer.safety.hot_loop_guard import WRITES_PER_WINDOW
from tenancy import wellknown
from tests.support.syncer.sessions import SessionWorld


def short_lived_token() -> tuple[SessionWorld, Key, str]:
    """Return a world in which a pod needs a token of ten minutes, its key, and when it ends."""
    world = SessionWorld()
    world.ready()
    session = world.session
    token = TokenSpec(namespace="web", account="robot", account_uid="robot-uid")
    session.pods.references.set("web", "p", {ObjectReference(ACCOUNT_TOKEN, "robot")})
    key = tokens.get_missing_token_key(token, session)
    assert key is not None
    ends = (datetime.now(UTC) + timedelta(seconds=600)).isoformat()
    answer = {"status": {"token": "t", "expirationTimestamp": ends}}
    world.above.answers["create ServiceAccount/token"] = answer
    return world, key, ends


async def test_a_short_lived_token_is_renewed_at_half_its_life_and_not_at_its_echo():
    world, key, _ = short_lived_token()
    session = world.session
    made = await tokens.reconcile_token(key, session)
    assert isinstance(made, RequeueAfter)
    assert 290 < made.after <= 300
    body = world.below.bodies[-1]
    metadata = {"annotations": body["metadata"]["annotations"], "resourceVersion": "1001"}
    world.super_has(
        "Secret", key.name, uid="robot-uid", metadata=metadata, type="Opaque", data=body["data"]
    )
    echoed = await tokens.reconcile_token(key, session)
    assert isinstance(echoed, RequeueAfter)
    assert 290 < echoed.after <= 300
    assert len(world.below.writes()) == 1
    for _ in range(WRITES_PER_WINDOW):
        session.hot_loop_guard.count_write(key)
    assert session.hot_loop_guard.get_pause(key) > 0  # the token's own write was counted, too


@pytest.mark.parametrize("data", [{}, {"token": "bm9uZQ=="}, {"token": "dA==", "more": "dA=="}])
async def test_a_token_that_was_changed_in_the_super_cluster_is_asked_for_again(
    data: dict[str, str],
):
    world, key, _ = short_lived_token()
    await tokens.reconcile_token(key, world.session)
    body = world.below.bodies[-1]
    assert body["data"] == {"token": "dA=="}
    metadata = {"annotations": body["metadata"]["annotations"], "resourceVersion": "1002"}
    world.super_has(
        "Secret", key.name, uid="robot-uid", metadata=metadata, type="Opaque", data=data
    )
    repaired = await tokens.reconcile_token(key, world.session)
    assert isinstance(repaired, RequeueAfter)
    assert repaired.after > 290
    assert [verb for verb, *_ in world.below.writes()] == ["create", "replace"]
    assert world.below.bodies[-1]["data"] == {"token": "dA=="}


async def test_a_token_made_immutable_in_the_super_cluster_is_recreated_when_it_is_due():
    world, key, ends = short_lived_token()
    session = world.session
    await tokens.reconcile_token(key, session)
    annotations = world.below.bodies[-1]["metadata"]["annotations"]
    annotations = {**annotations, wellknown.TOKEN_RENEW: ends.replace("20", "19", 1)}
    metadata = {"annotations": annotations, "resourceVersion": "1001"}
    entry = world.super_has(
        "Secret", key.name, uid="robot-uid", metadata=metadata, type="Opaque", immutable=True
    )
    world.below.has("Secret", key.name, entry.decode())
    await tokens.reconcile_token(key, session)
    assert [verb for verb, *_ in world.below.writes()] == ["create", "delete"]
    world.super_cluster.stores["Secret"].discard(entry, live=True)
    await tokens.reconcile_token(key, session)
    assert [verb for verb, *_ in world.below.writes()] == ["create", "delete", "create"]
