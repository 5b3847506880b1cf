"""The token of a joined target is renewed after half of its lifetime, in its Secret only."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubectl_vc.target import manifests
from kubeio import errors
from tenancy import wellknown
from tests.support.vcmanager.factories import RecordingClient, fake_means
from vcmanager.targets import credential_renewal

NOW = fake_means(RecordingClient()).now()
HOME = "d64ea0c0-0000-4000-8000-000000000000"


def secret(due: timedelta | None, *, content: str = "old-token") -> dict[str, Any]:
    kubeconfig = manifests.build_kubeconfig(
        "c2", server="https://10.0.0.5", ca=b"CA", token=content, tls_server_name=""
    )
    times = {} if due is None else {wellknown.TOKEN_RENEW: (NOW + due).isoformat()}
    body = manifests.build_secret("c2", "vc-manager", kubeconfig, times)
    body["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    return body


class Target:
    """A target that answers token requests."""

    def __init__(self, problem: errors.KubeError | None = None) -> None:
        self.asked: list[dict[str, Any]] = []
        self.problem = problem

    async def create(self, _resource: Any, body: Any, **where: Any) -> Any:
        self.asked.append({**where, "seconds": body["spec"]["expirationSeconds"]})
        if self.problem is not None:
            raise self.problem
        ends = (NOW + timedelta(days=7)).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"status": {"token": "new-token", "expirationTimestamp": ends}}


async def renew(found: dict[str, Any], target: Target) -> list[Any]:
    client = RecordingClient()
    await credential_renewal.renew_credential(
        fake_means(client),
        target,  # type: ignore[arg-type]
        found,
        token="old-token",
        home=HOME,
        target="c2",
    )
    return client.bodies


async def test_a_token_past_half_of_its_life_is_replaced_in_its_secret():
    """SEC-73."""
    target = Target()
    (body,) = await renew(secret(timedelta(seconds=-1)), target)
    assert target.asked == [
        {
            "namespace": "virtual-cluster-d64ea0c0",
            "name": "vc-syncer",
            "subresource": "token",
            "seconds": credential_renewal.TOKEN_SECONDS,
        }
    ]
    assert (body["metadata"]["uid"], body["metadata"]["resourceVersion"]) == ("u", "7")
    content = base64.b64decode(body["data"]["kubeconfig"])
    assert b"new-token" in content
    assert b"old-token" not in content
    renewal = datetime.fromisoformat(body["metadata"]["annotations"][wellknown.TOKEN_RENEW])
    assert abs(renewal - NOW - timedelta(days=3.5)) < timedelta(seconds=2)


@pytest.mark.parametrize("due", [None, timedelta(hours=1)], ids=["without times", "early"])
async def test_another_secret_is_left_alone(due):
    target = Target()
    assert await renew(secret(due), target) == []
    assert target.asked == []


async def test_a_secret_without_the_token_is_left_alone():
    assert await renew(secret(timedelta(seconds=-1), content="another"), Target()) == []


async def test_a_refusal_leaves_the_old_token():
    target = Target(errors.Forbidden("no", status=403))
    assert await renew(secret(timedelta(seconds=-1)), target) == []


def test_a_time_that_cannot_be_read_is_no_time():
    body = secret(timedelta(seconds=-1))
    body["metadata"]["annotations"][wellknown.TOKEN_RENEW] = "soon"
    assert not credential_renewal.is_renewal_due(body, datetime.now(UTC))
