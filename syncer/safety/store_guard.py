"""Delete protection: identity check of a tenant's etcd, and holding of deletes.

A store has three marks. They are the UID of its `kube-system`, its highest revision, and an epoch.
The epoch is a number in a ConfigMap of the tenant. The syncer increases it and copies it to the
root namespace. If any mark is missing or lower than before, deletes in the super cluster are held.
Creates and updates go on. Only a confirmation (`kubectl vc confirm-deletes`) or the return of the
old store ends the hold. Must not know kinds.

Time of an increase. An increase per session start would write at each restart. A backup from
between two starts would then pass as intact once its revision was raised. So the epoch is increased
`EPOCH_DELAY_SECONDS` after objects were synced to the super cluster. Every super object records the
tenant revision that it was written from. An increase is due as long as the ConfigMap has an older
revision. A restored backup without a synced object then lacks a later increase, too. A restart
without new objects writes nothing. The first session creates the ConfigMap.

Hazards: the store must be verified *after* a live 404 was read, so `verify_store` expects the time
of the read. Otherwise the 404 may be that of a different store. Both sides must be written in the
version that was read. Otherwise a late increase would replace a newer one.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import structlog

from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.controller.worker import NotReadyYet
from kubeio.resource_version import parse_revision
from tenancy import wellknown
from tenancy.ownership import Tenant
from tenancy.resources import CONFIG_MAPS, NAMESPACES

SYSTEM_NAMESPACE = "kube-system"
CONFIG_MAP = "virtual-cluster-store"
"""ConfigMap in the tenant's kube-system with the epoch."""
EPOCH_KEY = "epoch"
EPOCH_DELAY_SECONDS = 15.0
"""Delay in seconds from the first synced object to the increase of the epoch."""
HELD_RETRY_SECONDS = 30.0
"""Check interval in seconds of a store while its deletes are held."""

_MAX_READ_ATTEMPTS = 3  # the root namespace has other writers
_MAX_DIGITS = 15  # in a recorded epoch. A longer number was never counted.
MAX_EPOCH_LEAD = 10**9
"""Maximum lead of an epoch over the record. The syncer increases it every few seconds at most, so a
larger lead is a foreign write. Accepting it would let the epoch grow beyond the range of a number.
"""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRecord:
    """Marks of a tenant's store that the super cluster records. Zero and empty: never seen."""

    uid: str = ""
    revision: int = 0
    epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreObservation:
    """Marks that the store has now."""

    uid: str
    """Empty: there is no kube-system."""
    revision: int
    epoch: int
    """0: the ConfigMap is missing."""
    epoch_revision: int
    """resourceVersion of the ConfigMap."""


@dataclass(frozen=True, slots=True)
class StoreProblem:
    """Difference of a store from its record, as half a sentence."""

    text: str
    concerns_mark_only: bool = False
    """Whether only the syncer's own mark is wrong."""

    def __str__(self) -> str:
        """Return the problem for the log."""
        return f"only {self.text}" if self.concerns_mark_only else self.text


def find_store_problem(record: StoreRecord, sight: StoreObservation) -> StoreProblem | None:
    """Return the problem of a store. None if the store is intact."""
    if not record.uid:
        return None
    if sight.uid != record.uid:
        return StoreProblem("it is not the etcd that was synced before")
    if sight.revision < record.revision:
        return StoreProblem(
            f"its revision is lower than {record.revision}, which was seen before, so it is an"
            " older copy"
        )
    is_in_order = record.epoch <= sight.epoch <= record.epoch + MAX_EPOCH_LEAD
    return None if is_in_order else _find_epoch_problem(record, sight)


def _find_epoch_problem(record: StoreRecord, sight: StoreObservation) -> StoreProblem:
    if sight.epoch_revision and 0 < sight.epoch <= record.epoch:
        return StoreProblem(
            f"its epoch {sight.epoch} is lower than {record.epoch}, so it is an older copy"
        )
    where = f"ConfigMap {SYSTEM_NAMESPACE}/{CONFIG_MAP}"
    if sight.epoch > record.epoch:
        text = f"key {EPOCH_KEY} of {where} is {sight.epoch}, which the syncer did not write"
    elif not sight.epoch_revision:
        text = f"{where} is missing in it"
    else:
        text = f"key {EPOCH_KEY} of {where} is no longer a number"
    return StoreProblem(text, concerns_mark_only=True)


def format_held_message(problem: StoreProblem, observed_uid: str, name: str) -> str:
    """Return the message of the condition DeletesHeld. `observed_uid` may be empty."""
    if problem.concerns_mark_only:
        return (
            "Deletes are not synced to the super cluster: in the tenant's etcd, kube-system"
            f" {observed_uid}, {problem.text}. Its kube-system"
            " is the one that was synced before, and its revision did not decrease. Most likely,"
            " another client changed only this ConfigMap. A backup from before the ConfigMap was"
            " created looks the same. If nothing else is missing in the tenant, run `kubectl vc"
            f" confirm-deletes {name}`, which recreates the ConfigMap. Objects that the tenant"
            " lacks are then deleted in the super cluster."
        )
    return (
        "Deletes are not synced to the super cluster: the tenant's etcd has kube-system"
        f" {observed_uid or '<none>'}, and {problem.text}. If this etcd is the right one, run"
        f" `kubectl vc confirm-deletes {name}`. Objects that it lacks are then deleted in the super"
        " cluster. Otherwise, restore the previous etcd."
    )


def read_store_record(root_namespace: Object, twin_uid: str) -> StoreRecord:
    """Return the record. `twin_uid` is the UID that the super namespace of kube-system records.

    If the root namespace has no annotations, that super namespace still identifies the store.
    """
    annotations = (root_namespace.get("metadata") or {}).get("annotations") or {}
    epoch = annotations.get(wellknown.STORE_EPOCH, "")
    return StoreRecord(
        uid=annotations.get(wellknown.STORE_UID) or twin_uid,
        revision=parse_revision(annotations.get(wellknown.STORE_REVISION, "")),
        epoch=parse_revision(epoch) if len(epoch) <= _MAX_DIGITS else 0,
    )


def _get_counted_epoch(record: StoreRecord, sight: StoreObservation) -> int:
    """Return the current epoch. An epoch that the syncer did not write is ignored."""
    is_ours = sight.epoch <= record.epoch + MAX_EPOCH_LEAD
    return max(record.epoch, sight.epoch) if is_ours else record.epoch


class StoreGuard:
    """Delete protection of one tenant."""

    def __init__(
        self,
        *,
        tenant: Tenant,
        tenant_client: Client,
        super_client: Client,
        revision: Callable[[], int],
        on_judged: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`revision` returns the highest revision that the session's watches have seen.

        `on_judged` is called when the verdict has changed.
        """
        self._tenant = tenant
        self._tenant_client = tenant_client
        self._super_client = super_client
        self._seen_revision = revision
        self._on_judged = on_judged
        self._clock = clock
        self._lock = asyncio.Lock()
        self._verified_at = float("-inf")
        self._record = StoreRecord()
        self._root_uid = ""
        self._first_uid = ""
        self._observation: StoreObservation | None = None
        self._newest_written_revision = 0
        self._newest_counted_revision = 0
        """Highest revision that is known to belong to the intact store."""
        self._was_held = False
        self._is_mirrored = True
        self.problem: StoreProblem | None = None
        """Problem of the store. None: deletes are allowed."""

    @property
    def is_held(self) -> bool:
        """Return True if deletes in the super cluster are held."""
        return self.problem is not None

    @property
    def is_replaced(self) -> bool:
        """Return True if the store differs from the one at the start of the session.

        Its watches may not notice, because a new store's revision can be beyond their position.
        """
        return self._observation is not None and self._observation.uid != self._first_uid

    @property
    def message(self) -> str:
        """Message of the condition while deletes are held. Empty if they are not."""
        if self.problem is None:
            return ""
        return format_held_message(self.problem, self.store, self._tenant.name)

    @property
    def store(self) -> str:
        """UID of the kube-system of the store seen last. Empty if there is none."""
        return str(self._observation.uid) if self._observation else ""

    def record_write(self, tenant_revision: str) -> None:
        """Record that an object of this tenant revision was synced to the super cluster."""
        self._newest_written_revision = max(
            self._newest_written_revision, parse_revision(tenant_revision)
        )

    def record_stamps(self, stamps: Iterable[int]) -> None:
        """Add tenant revisions that super objects record and that were unknown to `initialize`.

        As in `initialize`, revisions beyond the store's own are ignored. They belong to an earlier
        store.
        """
        if self._observation is not None:
            known = max(self._observation.revision, self._seen_revision())
            self._newest_written_revision = max(
                [self._newest_written_revision, *(stamp for stamp in stamps if stamp <= known)]
            )

    @property
    def is_count_due(self) -> bool:
        """Return True if the epoch is older than the synced objects, or is not copied yet."""
        sight = self._observation
        if sight is None or self.is_held:
            return False
        is_older = self._newest_written_revision > sight.epoch_revision
        return is_older or self._record.epoch < sight.epoch or not self._is_mirrored

    async def initialize(self, *, twin_uid: str, stamps: Iterable[int]) -> None:
        """Read the record and judge the store for the first time.

        `stamps` are the tenant revisions that super objects record. They only decide whether an
        increase is due. Revisions beyond the store's own belong to an earlier store, whose loss was
        confirmed.
        """
        root = await self._super_client.get(NAMESPACES, self._tenant.root)
        self._root_uid = root["metadata"]["uid"]
        self._record = read_store_record(root, twin_uid)
        sight = await self._observe()
        self._newest_written_revision = max(
            (stamp for stamp in stamps if stamp <= sight.revision), default=0
        )
        self._first_uid = sight.uid
        if not self._record.uid:
            if not sight.uid:
                raise NotReadyYet("the tenant has no kube-system yet")
            await self.advance_epoch()

    async def verify_store(self, since: float) -> None:
        """Return when the store was verified later than `since`.

        Raises Wait while deletes are held.
        """
        async with self._lock:
            if self._verified_at < since or self.is_held:
                await self._observe()
        if self.is_held:
            raise NotReadyYet("deletes are held, because the tenant's etcd is not the known one")

    def check_not_held(self) -> None:
        """Raise Wait while deletes are held, without a request."""
        if self.is_held:
            raise NotReadyYet("deletes are held, because the tenant's etcd is not the known one")

    async def refresh(self) -> None:
        """Read the store and judge it."""
        async with self._lock:
            await self._observe()

    async def accept_store(self, uid: str) -> bool:
        """Accept the store as the tenant's own if its UID is the confirmed one.

        The session must restart afterwards, because its watches remember the old store's revisions.
        """
        async with self._lock:
            sight = await self._observe()
            if not self.is_held or sight.uid != uid:
                return False
            _log.warning("deletes.confirmed", problem=str(self.problem), store=uid)
            self._record = StoreRecord(
                uid=uid, revision=sight.revision, epoch=_get_counted_epoch(self._record, sight)
            )
            await self._advance_epoch(sight)
            self._newest_written_revision = 0
            self.problem = None
        return True

    async def advance_epoch(self) -> None:
        """Increase the epoch in the tenant and copy it to the root namespace, if that is due."""
        async with self._lock:
            sight = await self._observe()
            if not self.is_held:
                await self._advance_epoch(sight)

    async def _observe(self) -> StoreObservation:
        started = self._clock()
        # After a hold, the revisions that watches have seen may belong to a store with a raised
        # revision. Accepting them for the old store would keep the old store from ever being
        # recognized again. When the old store is back, or the new one is confirmed, the session
        # restarts.
        seen = 0 if self._was_held else self._seen_revision()
        record = StoreRecord(
            uid=self._record.uid,
            revision=max(self._record.revision, self._newest_counted_revision, seen),
            epoch=self._record.epoch,
        )
        sight = await observe_store(self._tenant_client)
        problem = find_store_problem(record, sight)
        if problem is None or sight.revision < seen:
            self._newest_counted_revision = record.revision
        if problem != self.problem:
            _log.warning("deletes.checked", problem=str(problem or "none"), store=sight.uid)
            self.problem = problem
            self._was_held = True
            self._on_judged()
        if problem is None:
            self._observation = sight
            self._verified_at = started
        elif self._observation is None or self._observation.uid != sight.uid:
            self._observation = sight
        return sight

    async def _advance_epoch(self, sight: StoreObservation) -> None:
        epoch = _get_counted_epoch(self._record, sight)
        if (
            self._newest_written_revision > sight.epoch_revision
            or not sight.epoch
            or epoch != sight.epoch
        ):
            epoch += 1
            written = await self._write_epoch(epoch, sight.epoch_revision)
        else:
            written = sight.epoch_revision  # increased before, only the copy was lost
        self._record = StoreRecord(
            uid=sight.uid, revision=max(sight.revision, written), epoch=epoch
        )
        self._observation = StoreObservation(
            uid=sight.uid, revision=self._record.revision, epoch=epoch, epoch_revision=written
        )
        self._is_mirrored = False
        await self._write_record()
        self._is_mirrored = True

    async def _write_record(self) -> None:
        """Write the record on the root namespace.

        Raises Conflict if other writers keep interfering.
        """
        annotations = {
            wellknown.STORE_UID: self._record.uid,
            wellknown.STORE_REVISION: str(self._record.revision),
            wellknown.STORE_EPOCH: str(self._record.epoch),
        }
        root = self._tenant.root
        for left in reversed(range(_MAX_READ_ATTEMPTS)):
            found = await self._super_client.get(NAMESPACES, root, metadata_only=True)
            version = found["metadata"]["resourceVersion"]
            metadata = {"uid": self._root_uid, "resourceVersion": version}
            body = {"metadata": {**metadata, "annotations": annotations}}
            try:
                await self._super_client.patch(
                    NAMESPACES, root, body, field_manager=wellknown.SYNCER
                )
            except errors.Conflict:
                if not left:
                    raise
            else:
                return

    async def _write_epoch(self, epoch: int, revision: int) -> int:
        """Write the epoch in the tenant. `revision` is that of the ConfigMap, or 0 to create it."""
        body: Object = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP, "namespace": SYSTEM_NAMESPACE},
            "data": {EPOCH_KEY: str(epoch)},
        }
        if revision:
            written = await self._tenant_client.patch(
                CONFIG_MAPS,
                CONFIG_MAP,
                {"metadata": {"resourceVersion": str(revision)}, "data": body["data"]},
                namespace=SYSTEM_NAMESPACE,
                field_manager=wellknown.SYNCER,
            )
        else:
            written = await self._tenant_client.create(
                CONFIG_MAPS, body, field_manager=wellknown.SYNCER
            )
        return parse_revision(written["metadata"]["resourceVersion"])


async def observe_store(tenant_client: Client) -> StoreObservation:
    """Return the marks of a store, from two live reads."""
    try:
        system = await tenant_client.get(NAMESPACES, SYSTEM_NAMESPACE, metadata_only=True)
    except errors.NotFound:
        uid = ""
    else:
        uid = system["metadata"]["uid"]
    found = await tenant_client.list(
        CONFIG_MAPS,
        namespace=SYSTEM_NAMESPACE,
        field_selector=f"metadata.name={CONFIG_MAP}",
    )
    items = found.get("items") or ()
    epoch = str((items[0].get("data") or {}).get(EPOCH_KEY, "")) if items else ""
    return StoreObservation(
        uid=uid,
        revision=parse_revision(found["metadata"]["resourceVersion"]),
        epoch=parse_revision(epoch),
        epoch_revision=parse_revision(items[0]["metadata"]["resourceVersion"]) if items else 0,
    )
