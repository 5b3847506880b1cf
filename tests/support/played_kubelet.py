"""A hand that plays kubelet for one namespace, because the tests' API servers have no nodes."""

import contextlib

from kubeio import errors
from kubeio.api.client import Client
from tenancy import resources


async def run_pods(client: Client, namespace: str) -> None:
    """Start every pod of a namespace and make it ready."""
    page = await client.list(resources.PODS, namespace=namespace)
    for pod in page.get("items") or ():
        containers = [
            {
                "name": each["name"],
                "image": each["image"],
                "imageID": each["image"],
                "containerID": f"test://{pod['metadata']['uid']}/{each['name']}",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            }
            for each in pod["spec"]["containers"]
        ]
        ready = {"status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        status = {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "podIPs": [{"ip": "10.0.0.1"}],
            "containerStatuses": containers,
            "conditions": [
                {"type": kind, **ready} for kind in ("PodScheduled", "ContainersReady", "Ready")
            ],
        }
        with contextlib.suppress(errors.NotFound):  # its StatefulSet was faster
            await client.patch(
                resources.PODS,
                pod["metadata"]["name"],
                {"status": status},
                namespace=namespace,
                subresource="status",
            )


async def end_pods(client: Client, namespace: str) -> None:
    """End the pods of a namespace that are asked to end."""
    page = await client.list(resources.PODS, namespace=namespace)
    for pod in page.get("items") or ():
        if "deletionTimestamp" in pod["metadata"]:
            with contextlib.suppress(errors.NotFound):  # the manager was faster
                await client.delete(
                    resources.PODS, pod["metadata"]["name"], namespace=namespace, grace_seconds=0
                )
