"""A store guard between two scripted clusters, and what it is asked to delete."""

from __future__ import annotations

from typing import Any

from kubeio import errors
from kubeio.cache.store import Entry, parse_entry
from syncer.model.decide import DeleteGrounds
from syncer.model.keys import HOME, Key
from syncer.safety import store_guard
from syncer.safety.expectations import Expectations
from syncer.safety.proven_deletes import DeleteTarget, ProvenDeletes
from syncer.safety.store_guard import StoreGuard, StoreObservation, StoreRecord
from tenancy import ownership, wellknown
from tenancy.ownership import Tenant
from tenancy.resources import CONFIG_MAPS
from tests.support.syncer.writers import proven_deletes

TENANT = Tenant(name="vc", namespace="default", uid="vc-uid", root="default-abc123-vc")
STORE = "7b0a5f0e-0000-4000-8000-000000000001"
OTHER = "7b0a5f0e-0000-4000-8000-000000000002"
KNOWN = StoreRecord(uid=STORE, revision=100, epoch=3)


def sight(
    uid: str = STORE, revision: int = 120, epoch: int = 3, epoch_revision: int = 90
) -> StoreObservation:
    """Return what a store shows."""
    return StoreObservation(uid=uid, revision=revision, epoch=epoch, epoch_revision=epoch_revision)


class ScriptedStore:
    """The two reads that identify a store, scripted, with a log of the requests in their order."""

    def __init__(self, seen: StoreObservation, log: list[str]) -> None:
        self.seen, self.log = seen, log
        self.objects: dict[str, str] = {}

    async def get(self, resource: Any, name: str, **_: Any) -> dict[str, Any]:
        if resource.kind == "Namespace":
            self.log.append("look")
            if not self.seen.uid:
                raise errors.NotFound("no kube-system")
            return {"metadata": {"uid": self.seen.uid}}
        self.log.append("tenant")
        if name not in self.objects:
            raise errors.NotFound("gone")
        return {"metadata": {"uid": self.objects[name]}}

    async def list(self, *_: Any, **__: Any) -> dict[str, Any]:
        items = []
        if self.seen.epoch:
            items = [
                {
                    "metadata": {"resourceVersion": str(self.seen.epoch_revision)},
                    "data": {store_guard.EPOCH_KEY: str(self.seen.epoch)},
                }
            ]
        return {"metadata": {"resourceVersion": str(self.seen.revision)}, "items": items}

    async def create(self, _: Any, body: dict[str, Any], **__: Any) -> dict[str, Any]:
        self.log.append(f"create epoch {body['data'][store_guard.EPOCH_KEY]}")
        return {"metadata": {"resourceVersion": "500"}}

    async def patch(self, *args: Any, **_: Any) -> dict[str, Any]:
        self.log.append(f"epoch {args[2]['data'][store_guard.EPOCH_KEY]}")
        return {"metadata": {"resourceVersion": "500"}}


class SuperAnswers:
    """The super cluster's answers."""

    def __init__(self, root: dict[str, Any], log: list[str]) -> None:
        self.root, self.log = root, log
        self.live: dict[str, Any] = {}

    async def get(self, resource: Any, _: str, **__: Any) -> dict[str, Any]:
        if resource.kind == "Namespace":
            return self.root
        self.log.append("super")
        if not self.live:
            raise errors.NotFound("gone")
        return self.live

    async def patch(self, *args: Any, **_: Any) -> dict[str, Any]:
        annotations = args[2]["metadata"]["annotations"]
        self.log.append(f"mirror {annotations[wellknown.STORE_EPOCH]}")
        return {}

    async def delete(self, *_: Any, **options: Any) -> dict[str, Any]:
        grace = options["grace_seconds"]
        words = ["delete", options["uid"], options["resource_version"]]
        words += [f"grace {grace}"] if grace is not None else []
        self.log.append(" ".join(each for each in words if each != ""))
        return {"kind": "Status"}


def root_namespace(record: StoreRecord) -> dict[str, Any]:
    """Return a root namespace that remembers a store."""
    annotations = {
        wellknown.STORE_UID: record.uid,
        wellknown.STORE_REVISION: str(record.revision),
        wellknown.STORE_EPOCH: str(record.epoch),
    }
    metadata = {"uid": "root-uid", "resourceVersion": "7"}
    return {"metadata": {**metadata, "annotations": annotations if record.uid else {}}}


def watched(
    record: StoreRecord,
    seen: StoreObservation,
    revision: int = 0,
    revisions: list[int] | None = None,
) -> tuple[StoreGuard, ScriptedStore, SuperAnswers, list]:
    """Return a store guard between two scripted clusters. The last of `revisions` is the one that
    was seen.
    """
    log: list[str] = []
    tenant, below = ScriptedStore(seen, log), SuperAnswers(root_namespace(record), log)
    found = StoreGuard(
        tenant=TENANT,
        tenant_client=tenant,
        super_client=below,
        revision=lambda: revisions[-1] if revisions else revision,
        on_judged=lambda: log.append("judged"),
    )
    return found, tenant, below, log


KEY = Key(TENANT.uid, HOME, "ConfigMap", "web", "c")


def twin(uid: str = "c-uid") -> Entry:
    """Return a super object that records a tenant object."""
    import orjson  # noqa: PLC0415 - only here

    return parse_entry(orjson.dumps({"kind": "ConfigMap", "metadata": twin_metadata(uid)}))


def twin_metadata(uid: str = "c-uid") -> dict[str, Any]:
    """Return the metadata of a twin as its API hands it out."""
    return {
        "name": "c",
        "namespace": "below",
        "uid": "below-uid",
        "resourceVersion": "55",
        "annotations": ownership.build_owner_annotations(TENANT, "web", uid),
    }


async def deleting(
    seen: StoreObservation | None = None,
) -> tuple[ProvenDeletes, ScriptedStore, SuperAnswers, list[str]]:
    """Return deletions of a connected tenant."""
    found, tenant, below, log = watched(KNOWN, seen or sight())
    await found.initialize(twin_uid=STORE, stamps=(0,))
    below.live = {"metadata": twin_metadata()}
    log.clear()
    deletions = proven_deletes(
        store_guard=found, tenant_client=tenant, super_client=below, expectations=Expectations()
    )
    return deletions, tenant, below, log


def target(grounds: DeleteGrounds, **options: Any) -> DeleteTarget:
    """Return a ConfigMap's twin to be deleted."""
    return DeleteTarget(key=KEY, resource=CONFIG_MAPS, entry=twin(), grounds=grounds, **options)
