"""Scheduler without scoring: each pod without a node gets the next node.

Run as `python -m bench.lifecycle.scheduler KUBECONFIG NODES`, in place of kube-scheduler, which
limits a super cluster before a good syncer does. It knows nodes by the names from
`tests.support.kwok_nodes`.
"""

import asyncio
import json
import sys
from itertools import count
from pathlib import Path

import uvloop

from bench.lifecycle.http_client import LoadTransport
from kubeio import errors
from kubeio.api.client import Client
from kubeio.config import loading
from kubeio.config.endpoint import Endpoint
from kubeio.http.rest import ClientOptions
from tenancy.resources import PODS
from tests.support import kwok_nodes

_AGENT = "binder"
_AT_ONCE = 16


async def _bind(
    wire: LoadTransport, waiting: asyncio.Queue[tuple[str, str]], names: list[str]
) -> None:
    for number in count():
        namespace, name = await waiting.get()
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"kind": "Node", "name": names[number % len(names)]},
        }
        path = f"{PODS.build_path(namespace, name)}/binding"
        # A pod that was bound or deleted meanwhile is refused, which is right.
        await wire.request("POST", path, json.dumps(binding).encode())


async def _run(endpoint: Endpoint, names: list[str]) -> None:
    waiting: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    async with (
        Client(endpoint, ClientOptions(user_agent=_AGENT)) as client,
        LoadTransport(endpoint, agent=_AGENT, connections=_AT_ONCE) as wire,
        asyncio.TaskGroup() as group,
    ):
        for first in range(_AT_ONCE):
            turned = names[first % len(names) :] + names[: first % len(names)]
            group.create_task(_bind(wire, waiting, turned))
        while True:
            try:
                async with client.watch(
                    PODS, field_selector="spec.nodeName=", initial_events=True
                ) as events:
                    async for event in events:
                        if event.type == "ADDED":
                            metadata = event.decode()["metadata"]
                            waiting.put_nowait((metadata["namespace"], metadata["name"]))
            except errors.KubeError as problem:
                sys.stderr.write(f"{problem}\n")
                await asyncio.sleep(0.1)


def main() -> int:
    """Bind pods until stopped."""
    endpoint = loading.load_tenant_kubeconfig(Path(sys.argv[1]).read_bytes(), name="super")
    names = [str(node["metadata"]["name"]) for node in kwok_nodes.nodes(int(sys.argv[2]))]
    uvloop.run(_run(endpoint, names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
