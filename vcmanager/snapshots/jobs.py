"""Jobs of snapshots in a root namespace, and the results of their pods.

Pure. Owns the shape of the pods. Image and placement of etcd's own containers are those of the live
StatefulSet of etcd, so a Job runs wherever etcd may run. Must not know when a Job is needed.

Hazard: the admission policy of vc-manager's account lets no other shape pass. A pod has no token,
no host namespace and no host path.

Hazard: the volume of snapshots is often local to one node. The first Job of a tenant therefore runs
on the node of etcd-0. Otherwise no pod could mount the data of etcd and the snapshots together.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeio import Object
from tenancy import quantities, wellknown
from tenancy.ownership import Tenant, build_owner_labels
from tenancy.snapshots.view import Snapshot
from vcmanager.snapshots import file_store, worker

COMPONENT = "snapshot"
SNAPSHOT_FOLDER = "/snapshots"
ETCD_FOLDER = "/var/lib/etcd"
REVISION_BUMP = 1_000_000_000
"""Number by which a restore raises the revision. Kubernetes documents it: clients must never see a
revision again that they saw with other content."""
DEADLINE_SECONDS = 900
"""Time in seconds after which a Job fails."""
START_SECONDS = 300.0
"""Time in seconds in which the pod of a restore must start. The tenant is stopped meanwhile."""
_KEPT_SECONDS = 3600
"""Time in seconds for which a finished Job is kept, if vc-manager did not delete it."""
VOLUME_FACTOR = 5
"""Size of the volume of snapshots as a multiple of the volume of etcd.

The database of etcd has at most 60 % of its volume. So eight files fit: the seven that a schedule
keeps by default, and the one that is being saved.
"""
_CERTIFICATES = "/etc/kubernetes/pki"
_S3_FOLDER = "/etc/kubernetes/s3"
_ETCD = "etcd"
_CLIENT_SECRET = "apiserver-etcd-client"  # noqa: S105 - a name
_DATA_CLAIM = "data-etcd-0"
_UNIT = 1024 * 1024
_COPIED_POD_FIELDS = (
    *("nodeSelector", "tolerations", "priorityClassName", "imagePullSecrets", "securityContext"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """Inputs of all Jobs of one tenant."""

    tenant: Tenant
    etcd: Object
    """The live StatefulSet of etcd."""
    image: str
    """Image of vc-manager, which has the program `snapshot-file`."""
    image_pull_policy: str = "IfNotPresent"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """State of a Job."""

    is_done: bool
    is_failed: bool = False
    has_started: bool = True
    """Whether a container of its pod has started."""
    is_before_last: bool = False
    """Whether a container before the last one failed, so that the last one never started."""
    output: Mapping[str, Any] | None = None
    """Result that the last container wrote."""
    reason: str = ""
    message: str = ""


def build_claim(context: JobContext, name: str) -> Object:
    """Return the claim for snapshots, of the class of etcd's volume and a multiple of its size."""
    template = context.etcd["spec"]["volumeClaimTemplates"][0]["spec"]
    size = quantities.parse_quantity(template["resources"]["requests"]["storage"]) or 0
    requests = {"storage": f"{max(1, int(size * VOLUME_FACTOR / _UNIT))}Mi"}
    storage = template.get("storageClassName")
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": context.tenant.root,
            "labels": build_owner_labels(context.tenant, ""),
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": requests},
            **({"storageClassName": storage} if storage else {}),
        },
    }


def build_save_job(
    context: JobContext, snapshot: Snapshot, manifest: Mapping[str, Any], *, name: str
) -> Object:
    """Return the Job that saves a snapshot and its manifest."""
    save = _build_etcd_container(
        context,
        "save",
        [
            "etcdctl",
            "--endpoints=https://etcd-client:2379",
            *_build_client_flags("--"),
            "snapshot",
            "save",
            _build_path(snapshot),
        ],
    )
    record = _build_record_container(context, snapshot, manifest, [_build_path(snapshot)])
    return _build_job(context, snapshot, name, [save, record], is_client=True)


def build_record_job(
    context: JobContext, snapshot: Snapshot, manifest: Mapping[str, Any], *, name: str
) -> Object:
    """Return the Job that checks an uploaded file and writes its manifest."""
    arguments = [_build_path(snapshot), f"--sha256={manifest['sha256']}"]
    record = _build_record_container(context, snapshot, manifest, arguments)
    return _build_job(context, snapshot, name, [record])


def build_compare_job(context: JobContext, snapshot: Snapshot, *, name: str) -> Object:
    """Return the Job that compares a snapshot with the running etcd."""
    arguments = [
        _build_path(snapshot),
        f"--sha256={_get_checksum(snapshot)}",
        "--endpoint=https://etcd-client:2379",
        *_build_client_flags("--"),
    ]
    arguments += build_s3_flags(snapshot)
    compare = _build_worker_container(context, "compare", arguments)
    return _build_job(context, snapshot, name, [compare], is_client=True)


def build_check_job(
    context: JobContext, snapshot: Snapshot, *, name: str, fork_range: str = ""
) -> Object:
    """Return the Job that checks a snapshot, or whether it can be forked, while the tenant runs."""
    arguments = [
        _build_path(snapshot),
        f"--sha256={_get_checksum(snapshot)}",
        *build_s3_flags(snapshot),
    ]
    containers = [_build_worker_container(context, "verify", arguments)]
    if fork_range:
        path = _build_path(snapshot)
        fork = [path, f"--out={path}{worker.FORK_SUFFIX}", f"--service-range={fork_range}"]
        containers.append(_build_worker_container(context, "fork", fork))
    return _build_job(context, snapshot, name, containers)


def build_delete_job(context: JobContext, snapshot: Snapshot, *, name: str) -> Object:
    """Return the Job that deletes the files of a snapshot."""
    arguments = [_build_path(snapshot), *build_s3_flags(snapshot)]
    return _build_job(
        context, snapshot, name, [_build_worker_container(context, "delete", arguments)]
    )


def build_restore_job(
    context: JobContext, snapshot: Snapshot, *, name: str, fork_range: str = ""
) -> Object:
    """Return the Job that replaces the data of a stopped etcd by a snapshot with one member.

    `fork_range`: the service range of a tenant that starts from the snapshot of another one.

    Hazard: each restore needs a token of its own. Otherwise the IDs of cluster and member would be
    those of an earlier etcd, and a member of it that still runs elsewhere could send to this one.
    """
    path, folder = _build_path(snapshot), f"--data-dir={ETCD_FOLDER}"
    source = f"{path}{worker.FORK_SUFFIX}" if fork_range else path
    peer = "https://etcd-0.etcd:2380"
    restore = [
        *("etcdutl", "snapshot", "restore", source, f"--data-dir={ETCD_FOLDER}/restored"),
        *("--name=etcd-0", f"--initial-cluster=etcd-0={peer}"),
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster-token={name}",
        *(f"--bump-revision={REVISION_BUMP}", "--mark-compacted"),
    ]
    verify = [path, f"--sha256={_get_checksum(snapshot)}", folder, *build_s3_flags(snapshot)]
    fork = [path, f"--out={source}", f"--service-range={fork_range}"]
    containers = [
        _build_worker_container(context, "verify", verify),
        *([_build_worker_container(context, "fork", fork)] if fork_range else ()),
        _build_etcd_container(context, "restore", restore),
        _build_worker_container(
            context, "swap", [folder, *([f"--fork={source}"] if fork_range else ())]
        ),
    ]
    return _build_job(context, snapshot, name, containers, has_data=True)


def read_result(job: Object | None, pods: Sequence[Object]) -> JobResult:
    """Return the state of a Job from its conditions and its pods."""
    if job is None:
        return JobResult(is_done=False)
    ended = {
        each["type"]: each
        for each in (job.get("status") or {}).get("conditions") or ()
        if each.get("status") == "True"
    }
    if "Complete" in ended:
        return JobResult(is_done=True, output=_read_output(pods))
    if "Failed" in ended:
        reason, message = explain_failure(pods)
        found = ended["Failed"]
        return JobResult(
            is_done=True,
            is_failed=True,
            is_before_last=has_failed_early(pods),
            reason=reason or str(found.get("reason") or file_store.FAILED),
            message=message or str(found.get("message") or "the Job failed"),
        )
    return JobResult(is_done=False, has_started=_has_started(pods))


def has_failed_early(pods: Iterable[Object]) -> bool:
    """Return whether a container before the last one failed. A pod that is missing proves nothing.

    Kubernetes deletes the pods of a Job that exceeds its deadline.
    """
    return any(
        ((each.get("state") or {}).get("terminated") or {}).get("exitCode", 0) != 0
        for pod in pods
        for each in (pod.get("status") or {}).get("initContainerStatuses") or ()
    )


def explain_failure(pods: Iterable[Object]) -> tuple[str, str]:
    """Return reason and message of the container that failed. Empty texts if none reports one."""
    for pod in pods:
        status = pod.get("status") or {}
        for kind in ("initContainerStatuses", "containerStatuses"):
            for container in status.get(kind) or ():
                ended = (container.get("state") or {}).get("terminated") or {}
                text = str(ended.get("message") or "").strip()
                if ended.get("exitCode", 0) == 0:
                    continue
                found = _parse_output(text)
                if found.get("reason"):
                    return str(found["reason"]), str(found.get("message", ""))
                if "no space left on device" in text:
                    place = "etcd" if container.get("name") == "restore" else "snapshots"
                    return file_store.VOLUME_FULL, f"the volume of {place} is full"
                last = text.splitlines()[-1] if text else f"exit code {ended.get('exitCode')}"
                return file_store.FAILED, f"{container.get('name')}: {last}"
    return "", ""


def describe_pending(pods: Iterable[Object]) -> str:
    """Return why the pod of a Job does not start, or an empty text."""
    for pod in pods:
        for each in (pod.get("status") or {}).get("conditions") or ():
            if each.get("type") == "PodScheduled" and each.get("status") == "False":
                return str(each.get("message") or "")
    return ""


def _has_started(pods: Iterable[Object]) -> bool:
    return any(
        (each.get("state") or {}).keys() & {"running", "terminated"}
        for pod in pods
        for kind in ("initContainerStatuses", "containerStatuses")
        for each in (pod.get("status") or {}).get(kind) or ()
    )


def _read_output(pods: Iterable[Object]) -> Mapping[str, Any]:
    for pod in pods:
        for container in (pod.get("status") or {}).get("containerStatuses") or ():
            ended = (container.get("state") or {}).get("terminated") or {}
            if ended.get("exitCode") == 0 and ended.get("message"):
                return _parse_output(str(ended["message"]))
    return {}


def _parse_output(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _build_path(snapshot: Snapshot) -> str:
    return f"{SNAPSHOT_FOLDER}/{snapshot.file_name}"


def _get_checksum(snapshot: Snapshot) -> str:
    return snapshot.status.manifest.sha256 if snapshot.status.manifest is not None else ""


def _build_client_flags(dashes: str) -> list[str]:
    return [
        f"{dashes}cacert={_CERTIFICATES}/trust/etcd.crt",
        f"{dashes}cert={_CERTIFICATES}/etcd/tls.crt",
        f"{dashes}key={_CERTIFICATES}/etcd/tls.key",
    ]


def _build_etcd_container(context: JobContext, name: str, command: list[str]) -> Object:
    etcd = context.etcd["spec"]["template"]["spec"]["containers"][0]
    policy = etcd.get("imagePullPolicy", "IfNotPresent")
    return {"name": name, "image": etcd["image"], "imagePullPolicy": policy, "command": command}


def _build_worker_container(context: JobContext, step: str, arguments: list[str]) -> Object:
    return {
        "name": step,
        "image": context.image,
        "imagePullPolicy": context.image_pull_policy,
        "args": [worker.PROGRAM, step, *arguments],
    }


def _build_record_container(
    context: JobContext, snapshot: Snapshot, manifest: Mapping[str, Any], arguments: list[str]
) -> Object:
    found = _build_worker_container(context, "record", [*arguments, *build_s3_flags(snapshot)])
    found["env"] = [{"name": "SNAPSHOT_MANIFEST", "value": json.dumps(manifest, sort_keys=True)}]
    return found


def build_s3_flags(snapshot: Snapshot) -> list[str]:
    """Return the flags of a step about the bucket. Empty without a bucket."""
    s3 = snapshot.spec.storage.s3
    if s3 is None:
        return []
    found = [
        f"--s3-endpoint={s3.endpoint}",
        f"--s3-bucket={s3.bucket}",
        f"--s3-prefix={s3.prefix}",
        f"--s3-region={s3.region}",
        f"--s3-credentials={_S3_FOLDER}/credentials",
        f"--s3-credentials-secret={s3.credentials_secret_name}",
    ]
    return found + ([f"--s3-ca={_S3_FOLDER}/ca/ca.crt"] if s3.ca_secret_name else [])


def _build_s3_volumes(snapshot: Snapshot) -> tuple[list[Object], list[Object]]:
    """Return the volumes with the credentials, and their mounts.

    They are optional, so that a missing Secret is a failure of the Job that names it.
    """
    s3 = snapshot.spec.storage.s3
    secrets = {"credentials": s3.credentials_secret_name, "ca": s3.ca_secret_name} if s3 else {}
    volumes = [
        {
            "name": f"s3-{each}",
            "secret": {"secretName": secret, "optional": True, "defaultMode": 0o440},
        }
        for each, secret in secrets.items()
        if secret
    ]
    mounts = [
        {"name": f"s3-{each}", "mountPath": f"{_S3_FOLDER}/{each}", "readOnly": True}
        for each, secret in secrets.items()
        if secret
    ]
    return volumes, mounts


def _build_job(
    context: JobContext,
    snapshot: Snapshot,
    name: str,
    containers: list[Object],
    *,
    is_client: bool = False,
    has_data: bool = False,
) -> Object:
    """Return a Job whose containers run one after the other.

    `is_client`: its pod connects to etcd. `has_data`: its pod mounts the data of etcd. Such a pod
    has no deadline, because Kubernetes would end it in the middle of a change, and without a trace.
    """
    pod = context.etcd["spec"]["template"]["spec"]
    labels = {**build_owner_labels(context.tenant, ""), wellknown.COMPONENT: COMPONENT}
    if snapshot.spec.storage.s3 is not None:
        labels[wellknown.USES_BUCKET] = "true"
    claim = snapshot.claim_name
    source: Object = {"persistentVolumeClaim": {"claimName": claim}} if claim else {"emptyDir": {}}
    volumes: list[Object] = [{"name": "snapshots", **source}]
    mounts: list[Object] = [{"name": "snapshots", "mountPath": SNAPSHOT_FOLDER}]
    s3_volumes, s3_mounts = _build_s3_volumes(snapshot)
    volumes += s3_volumes
    if is_client:
        secret = {"secretName": _CLIENT_SECRET, "defaultMode": 0o440}
        items = [{"key": "etcd.crt", "path": "etcd.crt"}]
        volumes += [
            {"name": "certificates", "secret": secret},
            {"name": "trust", "configMap": {"name": "trust", "items": items}},
        ]
        mounts += [
            {"name": "certificates", "mountPath": f"{_CERTIFICATES}/etcd", "readOnly": True},
            {"name": "trust", "mountPath": f"{_CERTIFICATES}/trust", "readOnly": True},
        ]
    if has_data:
        volumes.append({"name": "data", "persistentVolumeClaim": {"claimName": _DATA_CLAIM}})
        mounts.append({"name": "data", "mountPath": ETCD_FOLDER})
    for each in containers:
        # etcd's own containers need no credentials of the bucket.
        each["volumeMounts"] = mounts if "command" in each else [*mounts, *s3_mounts]
        each["terminationMessagePolicy"] = "FallbackToLogsOnError"
        each["resources"] = {"requests": {"cpu": "20m", "memory": "64Mi"}}
        each["securityContext"] = {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {wellknown.COMPONENT: _ETCD}},
    }
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": context.tenant.root, "labels": labels},
        "spec": {
            "backoffLimit": 0,
            **({} if has_data else {"activeDeadlineSeconds": DEADLINE_SECONDS}),
            "ttlSecondsAfterFinished": _KEPT_SECONDS,
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 0,
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    **{field: pod[field] for field in _COPIED_POD_FIELDS if pod.get(field)},
                    **({"affinity": near} if is_client else {}),
                    "initContainers": containers[:-1],
                    "containers": containers[-1:],
                    "volumes": volumes,
                },
            },
        },
    }
