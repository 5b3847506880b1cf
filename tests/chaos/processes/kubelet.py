"""Scheduler and kubelets of the super cluster in one: pods get a node, are Ready, and end.

Binds what has no node, reports what is not Ready, and removes what is on its way out. Nothing else
is ever deleted below by anyone but the syncer. `tests.support.memapi.kubelet` does the same in
memory.
"""

from __future__ import annotations

import asyncio
import contextlib

from kubeio import errors
from kubeio.api.client import Client
from tenancy.resources import PODS
from tests.chaos.oracles import TERMINAL, Object
from tests.chaos.processes.following import KindWatch
from tests.integration.syncer.objects import running_status

AGAIN_SECONDS = 0.5


class DrillKubelet:
    """Plays the pods of one cluster."""

    def __init__(self, client: Client, nodes: tuple[str, ...]) -> None:
        self._client, self._nodes = client, nodes
        self._following = KindWatch(client, PODS, self._heard)
        self._news: asyncio.Queue[str] = asyncio.Queue()

    async def run(self) -> None:
        """Play until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._following.run())
            for _ in range(4):
                group.create_task(self._act())

    def _heard(self, kind: str, body: Object) -> None:
        if kind != "DELETED":
            self._news.put_nowait(body["metadata"]["uid"])

    async def _act(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            uid = await self._news.get()
            body = self._following.objects.get(uid)
            if body is None:
                continue
            try:
                await self._step(body)
            except (errors.NotFound, errors.Conflict):
                continue  # it changed meanwhile, and that is news of its own
            except errors.KubeError:
                loop.call_later(AGAIN_SECONDS, self._news.put_nowait, uid)

    async def _step(self, body: Object) -> None:
        metadata = body["metadata"]
        name, space, uid = metadata["name"], metadata["namespace"], metadata["uid"]
        if "deletionTimestamp" in metadata:
            await self._client.delete(PODS, name, namespace=space, uid=uid, grace_seconds=0)
        elif not body["spec"].get("nodeName"):
            await self._bind(name, space, uid)
        elif not body["status"].get("podIP") and body["status"].get("phase") not in TERMINAL:
            status = {**running_status(name), **_address(uid)}
            patch = {"metadata": {"uid": uid}, "status": status}
            await self._client.patch(PODS, name, patch, namespace=space, subresource="status")

    async def _bind(self, name: str, space: str, uid: str) -> None:
        node = self._nodes[int(uid[:4], 16) % len(self._nodes)]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": space, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        with contextlib.suppress(errors.BadRequest):
            await self._client.create(
                PODS, binding, namespace=space, name=name, subresource="binding"
            )


def _address(uid: str) -> Object:
    number = int(uid[:6], 16)
    address = f"10.{128 + (number >> 16) % 64}.{number >> 8 & 255}.{number & 255}"
    return {"podIP": address, "podIPs": [{"ip": address}]}
