"""A real etcd that has reached its limit refuses writes, accepts deletes, and can be freed."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from kubeio.api.client import Client
from kubeio.errors import ApiError
from syncer.tenants.connection import STORE_FULL
from tenancy.resources import CONFIG_MAPS
from tests.support.controlplane import LocalControlPlane
from tests.support.eventually import eventually

LIMIT = 16 * 2**20
VALUE = "x" * 900_000


def large(number: int) -> dict[str, Any]:
    """Return a large ConfigMap."""
    return {"metadata": {"name": f"large-{number}"}, "data": {"k": VALUE}}


async def call_etcd(plane: LocalControlPlane, path: str, **body: Any) -> Any:
    """Send a request to etcd, as etcdctl does. Returns the answer."""
    url, data = f"{plane.etcd}/v3/{path}", json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    asked = urllib.request.Request(url, data=data, headers=headers)  # noqa: S310 - loopback
    answer = await asyncio.to_thread(
        lambda: urllib.request.urlopen(asked, timeout=30).read()  # noqa: S310
    )
    return json.loads(answer)


async def fill(client: Client) -> int:
    """Create large objects until etcd refuses one. Returns their number."""
    for number in range(60):
        try:
            await client.create(CONFIG_MAPS, large(number), namespace="default")
        except ApiError as problem:
            if STORE_FULL not in problem.server_message:
                raise
            return number
    raise AssertionError("etcd has no limit")


async def test_a_full_etcd_accepts_deletes_and_is_freed_by_them(tmp_path: Path):
    """SEC-66."""
    plane = LocalControlPlane(
        tmp_path,
        name="full",
        service_range="10.96.16.0/22",
        env={"ETCD_QUOTA_BACKEND_BYTES": str(LIMIT)},
    )
    await plane.start()
    try:
        async with Client(plane.endpoint) as client:
            written = await fill(client)
            with pytest.raises(ApiError, match=STORE_FULL):
                await client.create(CONFIG_MAPS, large(100), namespace="default")
            for number in range(written):
                await client.delete(CONFIG_MAPS, f"large-{number}", namespace="default")
            found = await client.list(CONFIG_MAPS, namespace="default")
            assert not [
                item for item in found["items"] if item["metadata"]["name"].startswith("large-")
            ]
            revision = found["metadata"]["resourceVersion"]
            await call_etcd(plane, "kv/compaction", revision=revision, physical=True)
            await call_etcd(plane, "maintenance/defragment")
            alarms = (await call_etcd(plane, "maintenance/alarm", action="GET"))["alarms"]
            assert [alarm["alarm"] for alarm in alarms] == ["NOSPACE"]
            await call_etcd(plane, "maintenance/alarm", **{**alarms[0], "action": "DEACTIVATE"})
            await eventually(lambda: client.create(CONFIG_MAPS, large(200), namespace="default"))
    finally:
        await plane.stop()
