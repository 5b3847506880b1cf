"""Short-lived pod in a root namespace with the volume of snapshots, and the streams to its files.

Owns the shape of the Job. It runs with the user's rights, because vc-manager must not pass the
content of a tenant's etcd on. Must not know what a file is for.

Hazard: the Job must end by itself, because the command can be killed. It has a deadline, and
Kubernetes deletes it after its end.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kubectl_vc.client import pod_exec
from kubectl_vc.client.connection import SuperConnection
from kubectl_vc.flags import MANAGER_NAMESPACE
from kubectl_vc.output.cli_errors import CliError
from kubeio import Object, errors
from tenancy import wellknown
from tenancy.names import build_root_namespace
from tenancy.resources import DEPLOYMENTS, JOBS, PODS, STATEFUL_SETS

FOLDER = "/snapshots"
PROGRAM = ("python3", "-m", "vcmanager", "snapshot-file")
_HOLD = ("snapshot-file", "hold")
_DEADLINE_SECONDS = 3600
_START_SECONDS = 300.0
_POLL_SECONDS = 1.0
_ETCD = "etcd"
_COPIED_POD_FIELDS = (
    *("nodeSelector", "tolerations", "priorityClassName", "imagePullSecrets", "securityContext"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferPod:
    """A running pod with the volume of snapshots."""

    connection: SuperConnection
    namespace: str
    name: str

    async def run(
        self,
        *words: str,
        write: Callable[[bytes], None],
        stdin: AsyncIterator[bytes] | None = None,
    ) -> None:
        """Run a step of the program `snapshot-file`."""
        endpoint = self.connection.super_client.endpoint
        command = (*PROGRAM, *words)
        await pod_exec.run_in_pod(
            endpoint, self.namespace, self.name, command, write=write, stdin=stdin
        )


@contextlib.asynccontextmanager
async def open_transfer_pod(
    connection: SuperConnection,
    cluster: Mapping[str, Any],
    snapshot: Mapping[str, Any],
    *,
    image: str,
    is_read_only: bool,
) -> AsyncIterator[TransferPod]:
    """Run a pod with the volume of a snapshot. Leaving the block deletes it."""
    client, root = connection.super_client, build_root(cluster)
    try:
        etcd = await client.get(STATEFUL_SETS, _ETCD, namespace=root)
    except errors.NotFound as problem:
        raise CliError(
            f"The root namespace {root} has no etcd. The files of the snapshot are in its volume."
        ) from problem
    job = build_job(
        etcd,
        snapshot,
        root=root,
        image=image or await find_image(connection),
        is_read_only=is_read_only,
    )
    made = await client.create(JOBS, job, namespace=root, field_manager="kubectl-vc")
    name = made["metadata"]["name"]
    try:
        yield TransferPod(
            connection=connection, namespace=root, name=await _wait_for_pod(connection, root, name)
        )
    finally:
        with contextlib.suppress(errors.NotFound):
            await client.delete(JOBS, name, namespace=root, propagation="Background")


def build_root(cluster: Mapping[str, Any]) -> str:
    """Return the root namespace of a VirtualCluster."""
    metadata = cluster["metadata"]
    return build_root_namespace(metadata["namespace"], metadata["name"], metadata["uid"])


def build_job(
    etcd: Mapping[str, Any],
    snapshot: Mapping[str, Any],
    *,
    root: str,
    image: str,
    is_read_only: bool,
) -> Object:
    """Return the Job. Placement and user are those of etcd, as for the Jobs of vc-manager."""
    pod = etcd["spec"]["template"]["spec"]
    storage = (snapshot.get("spec") or {}).get("storage") or {}
    claim = (storage.get("persistentVolumeClaim") or {}).get("claimName") or "snapshots"
    volumes: list[Object] = [
        {"name": "snapshots", "persistentVolumeClaim": {"claimName": claim}},
    ]
    mounts: list[Object] = [
        {"name": "snapshots", "mountPath": FOLDER, "readOnly": is_read_only},
    ]
    if storage.get("s3"):
        raise CliError(
            "The file of this snapshot is in a bucket. Copy it with a client of the bucket. Its key"
            f" is {storage['s3'].get('prefix', '')}{snapshot['metadata']['uid']}.db"
        )
    labels = {wellknown.COMPONENT: "snapshot"}
    container = {
        "name": "transfer",
        "image": image,
        "args": [*_HOLD, f"--seconds={_DEADLINE_SECONDS}"],
        "volumeMounts": mounts,
        "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": "snapshot-transfer-", "namespace": root, "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": _DEADLINE_SECONDS,
            "ttlSecondsAfterFinished": 0,
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 0,
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    **{field: pod[field] for field in _COPIED_POD_FIELDS if pod.get(field)},
                    "containers": [container],
                    "volumes": volumes,
                },
            },
        },
    }


async def find_image(connection: SuperConnection) -> str:
    """Return the image of vc-manager in this super cluster, from its Deployment.

    Hazard: only the namespace of the components counts. Otherwise every user who may create a
    Deployment with that label would choose the program that reads a tenant's etcd.
    """
    page = await connection.super_client.list(
        DEPLOYMENTS,
        namespace=MANAGER_NAMESPACE,
        label_selector=f"app.kubernetes.io/name={wellknown.MANAGER}",
    )
    for each in page.get("items") or ():
        for container in each["spec"]["template"]["spec"]["containers"]:
            return str(container["image"])
    raise CliError(
        f"The namespace {MANAGER_NAMESPACE} has no Deployment of vc-manager. If it runs in another"
        " one, name its image with --image."
    )


async def _wait_for_pod(connection: SuperConnection, root: str, job: str) -> str:
    """Return the name of the Job's pod once it runs."""
    text = "no pod exists yet"
    try:
        async with asyncio.timeout(_START_SECONDS):
            while True:
                page = await connection.super_client.list(
                    PODS, namespace=root, label_selector=f"batch.kubernetes.io/job-name={job}"
                )
                for pod in page.get("items") or ():
                    if (pod.get("status") or {}).get("phase") == "Running":
                        return str(pod["metadata"]["name"])
                    text = _describe_pending(pod)
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError as problem:
        raise CliError(
            f"Job {root}/{job}: its pod does not run after {_START_SECONDS:.0f} s ({text})."
        ) from problem


def _describe_pending(pod: Mapping[str, Any]) -> str:
    status = pod.get("status") or {}
    for each in status.get("conditions") or ():
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            return str(each.get("message") or "it is not scheduled")
    for each in status.get("containerStatuses") or ():
        waiting = (each.get("state") or {}).get("waiting") or {}
        if waiting:
            return f"{waiting.get('reason')}: {waiting.get('message') or 'no message'}"
    return f"phase {status.get('phase') or 'Pending'}"
