"""The ceiling: the writes of a pod's life through a syncer, sent by a generator that only sends.

Owns the bodies and their order. Everything is known beforehand: pods' bodies are those that the
real syncer made for a canary, so nothing is watched, read or decided. The rest is the time of the
servers, which no syncer on this machine can save.
"""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.lifecycle.http_client import MERGE, LoadTransport
from bench.lifecycle.load import GRACEFUL, LoadItem, delete, post
from tenancy.resources import PODS

_SERVERS = ("resourceVersion", "uid", "creationTimestamp", "generation", "managedFields")
_NOW = b'{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0}'


@dataclass(frozen=True)
class TenantReplay:
    """The writes for the pods of one tenant."""

    wire: LoadTransport
    """The super cluster."""
    namespace: str
    twin: Mapping[str, Any]
    status: bytes
    statuses: int
    node: str

    async def create(self, item: LoadItem) -> None:
        """Make a pod and everything that follows from it, without looking."""
        await post(item)
        await self.wire.do("POST", PODS.build_path(self.namespace, ""), self._twin(item.name))
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": item.name},
            "target": {"kind": "Node", "name": self.node},
        }
        await item.wire.do("POST", f"{item.path}/binding", json.dumps(binding).encode())
        for number in range(self.statuses):
            body = self.status.replace(b"@number@", str(number).encode())
            await item.wire.do("PATCH", f"{item.path}/status", body, content=MERGE)

    async def delete(self, item: LoadItem) -> None:
        """Delete a pod and its twin, and let it go."""
        await delete(item)
        await self.wire.do("DELETE", PODS.build_path(self.namespace, item.name), GRACEFUL)
        await item.wire.do("DELETE", item.path, _NOW)

    def _twin(self, name: str) -> bytes:
        made = {**self.twin, "metadata": {**self.twin["metadata"], "name": name}}
        return json.dumps(made).encode()


def script(wire: LoadTransport, pod: Mapping[str, Any], *, statuses: int) -> TenantReplay:
    """Return the script for a tenant from what its canary was below when it was Ready."""
    twin = copy.deepcopy(dict(pod))
    status, node = twin.pop("status"), twin["spec"].pop("nodeName")
    for field in _SERVERS:
        twin["metadata"].pop(field, None)
    twin |= {"apiVersion": "v1", "kind": "Pod"}
    status["message"] = "@number@"  # or the second write of a status would be none
    return TenantReplay(
        wire=wire,
        namespace=twin["metadata"]["namespace"],
        twin=twin,
        status=json.dumps({"status": status}).encode(),
        statuses=statuses,
        node=node,
    )
