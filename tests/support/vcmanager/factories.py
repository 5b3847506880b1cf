"""Things that many unit tests of the manager need."""

from datetime import UTC, datetime
from typing import Any

from kubeio import errors
from kubeio.api.client import Client
from tenancy import names
from tenancy.ownership import Tenant
from tenancy.specs import ClusterVersionSpec, VirtualClusterSpec, parse_cluster_version
from vcmanager.pki.inventory import CertificateFacts
from vcmanager.plan.control_plane import PlanInput
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.options import OperatorSettings
from vcmanager.targets.clients import TargetClientCache

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
UID = "d64ea0c0-91f8-46f5-8643-c0cab32ab0cd"
TENANT = Tenant(
    name="vc-1",
    namespace="default",
    uid=UID,
    root=names.build_root_namespace("default", "vc-1", UID),
)
FACTS = CertificateFacts(
    root=TENANT.root,
    uid=UID,
    name=TENANT.name,
    domain="cluster.local",
    api_address="10.96.4.1",
    service_address="10.111.2.3",
    external_domains=("vc.example.org",),
)


def wish(
    *,
    version: ClusterVersionSpec | None = None,
    external_domains: tuple[str, ...] = (),
    registry: str = "registry.example/vc",
    is_new: bool = False,
    **spec: Any,
) -> PlanInput:
    """Return a wish for a tenant. Keywords are fields of the VirtualCluster's spec."""
    return PlanInput(
        tenant=TENANT,
        spec=VirtualClusterSpec(cluster_version_name="v1.36", **spec),
        version_name="v1.36",
        version=version or ClusterVersionSpec(kubernetes_version="1.36"),
        external_domains=external_domains,
        settings=OperatorSettings(registry=registry),
        is_new=is_new,
    )


def bundled(sample: dict[str, Any]) -> PlanInput:
    """Return a wish for a ClusterVersion object of upstream's shape."""
    return wish(version=parse_cluster_version(sample))


def workload(
    name: str = "etcd", *, replicas: int = 1, ready: int = 0, kind: str = "StatefulSet", **more: Any
) -> dict[str, Any]:
    """Return a workload as the API server shows it."""
    status = {
        "observedGeneration": 1,
        "replicas": replicas,
        "readyReplicas": ready,
        "updatedReplicas": replicas,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": TENANT.root, "uid": f"uid-{name}", "generation": 1},
        "spec": {
            "replicas": replicas,
            "template": {"metadata": {"labels": {"component-name": name}}, "spec": {}},
        },
        "status": {**status, **more},
    }


def pod(name: str, component: str, **status: Any) -> dict[str, Any]:
    """Return a pod as the API server shows it."""
    return {
        "metadata": {
            "name": name,
            "namespace": TENANT.root,
            "uid": f"uid-{name}",
            "labels": {"component-name": component},
            "annotations": {},
        },
        "spec": {},
        "status": status,
    }


class RecordingClient:
    """Stands where the super cluster's client is: knows objects by name, remembers writes."""

    def __init__(self, objects: dict[str, dict[str, Any]] | None = None) -> None:
        self.objects = objects or {}
        self.listed: list[dict[str, Any]] = []
        """Answer of every list."""
        self.calls: list[tuple[str, str]] = []
        """Verb and name of each write."""
        self.bodies: list[dict[str, Any]] = []
        self.problems: dict[tuple[str, str], Exception] = {}
        """Error of a verb with a name."""

    async def get(self, _resource: Any, name: str, **_: Any) -> dict[str, Any]:
        """Return a known object."""
        self._fail("get", name)
        if name not in self.objects:
            raise errors.NotFound(f"there is no {name}")
        return self.objects[name]

    async def list(self, resource: Any, **_: Any) -> dict[str, Any]:
        """Return what there is."""
        self._fail("list", resource.plural)
        return {"items": self.listed}

    async def create(self, _resource: Any, body: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Remember a creation."""
        name = body["metadata"]["name"]
        self._write("create", name, body)
        return {**body, "metadata": {**body["metadata"], "uid": f"uid-{name}"}}

    async def apply(self, _resource: Any, body: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Remember an apply."""
        self._write("apply", body["metadata"]["name"], body)
        return body

    async def patch(self, _resource: Any, name: str, body: dict[str, Any], **_: Any) -> Any:
        """Remember a patch."""
        self._write("patch", name, body)
        return body

    async def replace(self, _resource: Any, body: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Remember a replacement."""
        self._write("replace", body["metadata"]["name"], body)
        return body

    async def delete(self, _resource: Any, name: str, **_: Any) -> None:
        """Remember a deletion."""
        self._write("delete", name, {})

    def _write(self, verb: str, name: str, body: dict[str, Any]) -> None:
        self._fail(verb, name)
        self.calls.append((verb, name))
        self.bodies.append(body)

    def _fail(self, verb: str, name: str) -> None:
        if (verb, name) in self.problems:
            raise self.problems[verb, name]


def fake_means(super_client: RecordingClient | Client | None, **more: Any) -> ReconcileContext:
    """Return means over a stand-in for the super cluster."""
    return ReconcileContext(
        super_client=super_client,  # type: ignore[arg-type]
        settings=OperatorSettings(registry="registry.example/vc"),
        namespace="vc-manager",
        recorder=more.pop("recorder", RecordedEventRows()),
        now=lambda: NOW,
        enqueue=more.pop("wake", lambda _: None),
        enqueue_after=more.pop("later", lambda *_: None),
        target_clients=more.pop("targets", None) or TargetClientCache(),
        **more,
    )


class RecordedEventRows:
    """Stands where the recorder of Events is."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.messages: list[str] = []

    def record(self, _body: Any, reason: str, message: str, *, kind: str) -> None:
        """Remember the reason and the message."""
        assert kind in ("Normal", "Warning")
        self.reasons.append(reason)
        self.messages.append(message)
