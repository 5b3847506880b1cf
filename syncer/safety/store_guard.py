"""Is this still the store that we carried things down from? If not, nothing is deleted.

Owns the identity of a tenant's store and the verdict on it. A store has three marks: the UID of its
`kube-system`, its highest revision, and an epoch, a number in a ConfigMap of the tenant that we
count up and mirror on the root namespace. If any of them goes back or is gone, downward deletes are
held, creates and updates go on, and only a person (`kubectl vc confirm-deletes`) or the old store's
return ends that. Must not know kinds.

When the epoch is counted up. Each engagement would write at each restart, and a backup taken
between two engagements would still pass as intact once its revision was bumped. So the epoch is
counted up a little after objects went down: every super object records the tenant revision it was
written from, the ConfigMap has a revision of its own, and as long as it is the older one a count
is due. A restored backup that lacks any object we carried down then lacks a later count, too; and a
restart that finds nothing new writes nothing. The very first engagement makes the ConfigMap.

Hazards: the order of proof. A live 404 is worth something only if the store is found intact *after*
it was read; `verify` therefore takes the time of the read. And a count that arrives late must not
put an older one in place of a newer: both sides are written in the version that was read.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import structlog

from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.controller.worker import Wait
from kubeio.resource_version import revision_of
from tenancy import wellknown
from tenancy.ownership import Tenant
from tenancy.resources import CONFIG_MAPS, NAMESPACES

SYSTEM_NAMESPACE = "kube-system"
CONFIG_MAP = "virtual-cluster-store"
"""ConfigMap in the tenant's kube-system that carries the epoch."""
EPOCH = "epoch"
SETTLE_SECONDS = 15.0
"""How long after the first object went down the epoch is counted up."""
LOOK_AGAIN_SECONDS = 30.0
"""How often a store is looked at while its deletes are held."""

_TRIES = 3  # the root namespace has other writers
_MAX_DIGITS = 15  # of an epoch on record; longer ones were never counted
MAX_LEAP = 10**9
"""How far an epoch may be ahead of the record. It is counted every few seconds at most, so that one
further ahead was written by somebody else; taken for ours it would grow beyond what is a number."""

MARK_GONE = "only"
"""How a problem begins that is about our own mark and nothing else of the store."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What the super cluster remembers of a tenant's store; zero and empty: never seen."""

    uid: str = ""
    revision: int = 0
    epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What the store shows now."""

    uid: str
    """Empty: there is no kube-system."""
    revision: int
    epoch: int
    """0: the ConfigMap is gone, or was never made."""
    epoch_revision: int
    """resourceVersion of the ConfigMap."""


def judge(record: Record, sight: Sight) -> str:
    """Return what is wrong with a store, as half a sentence; empty when it is intact."""
    if not record.uid:
        return ""
    if sight.uid != record.uid:
        return "it is another store than the one that was synced before"
    if sight.revision < record.revision:
        return f"its revision is below {record.revision}, seen before, so it is an older copy"
    is_in_order = record.epoch <= sight.epoch <= record.epoch + MAX_LEAP
    return "" if is_in_order else _epoch_problem(record, sight)


def _epoch_problem(record: Record, sight: Sight) -> str:
    where = f"ConfigMap {SYSTEM_NAMESPACE}/{CONFIG_MAP}"
    if sight.epoch > record.epoch:
        return f"{MARK_GONE} key {EPOCH} of {where} holds {sight.epoch}, which nobody counted up to"
    if not sight.epoch_revision:
        return f"{MARK_GONE} {where} is missing in it"
    if not sight.epoch:
        return f"{MARK_GONE} key {EPOCH} of {where} holds no number any more"
    return f"its epoch {sight.epoch} is below {record.epoch}, so it is an older copy"


def sentence(problem: str, sight_uid: str, name: str) -> str:
    """Return the message of the condition DeletesHeld, for people. `sight_uid` may be empty."""
    if problem.startswith(MARK_GONE):
        return (
            f"No deletes are carried down: in the tenant's store, kube-system {sight_uid},"
            f" {problem.removeprefix(MARK_GONE).strip()}. Its kube-system is the one that was"
            " synced before and its revision did not go back, so most likely somebody changed just"
            " that; but a backup from before the ConfigMap was made looks the same. If nothing"
            f" else is missing in the tenant, run `kubectl vc confirm-deletes {name}`, which"
            " makes the mark anew; whatever the tenant lacks is then deleted in the super cluster."
        )
    return (
        f"No deletes are carried down: the tenant's store has kube-system {sight_uid or '<none>'},"
        f" and {problem}. If this store is meant to stay, run `kubectl vc confirm-deletes {name}`;"
        " whatever it lacks is then deleted in the super cluster. Otherwise bring the old store"
        " back."
    )


def record_of(root_namespace: Object, twin_uid: str) -> Record:
    """Return the record; `twin_uid` is what the super namespace of kube-system records.

    Without annotations on the root namespace that namespace still remembers the store.
    """
    annotations = (root_namespace.get("metadata") or {}).get("annotations") or {}
    epoch = annotations.get(wellknown.STORE_EPOCH, "")
    return Record(
        uid=annotations.get(wellknown.STORE_UID) or twin_uid,
        revision=revision_of(annotations.get(wellknown.STORE_REVISION, "")),
        epoch=revision_of(epoch) if len(epoch) <= _MAX_DIGITS else 0,
    )


def _counted(record: Record, sight: Sight) -> int:
    """Return where counting stands; an epoch that is none of ours does not count."""
    is_ours = sight.epoch <= record.epoch + MAX_LEAP
    return max(record.epoch, sight.epoch) if is_ours else record.epoch


class Brake:
    """Watches over one tenant's store."""

    def __init__(
        self,
        *,
        tenant: Tenant,
        tenant_client: Client,
        super_client: Client,
        revision: Callable[[], int],
        judged: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`revision` tells the highest revision that the session's watches have seen.

        `judged` is called when the judgement has changed.
        """
        self._tenant = tenant
        self._tenant_client = tenant_client
        self._super_client = super_client
        self._seen_revision = revision
        self._judged = judged
        self._clock = clock
        self._lock = asyncio.Lock()
        self._verified_at = float("-inf")
        self._record = Record()
        self._root_uid = ""
        self._first_uid = ""
        self._sight: Sight | None = None
        self._newest = 0
        self._reached = 0
        """Highest revision that is known to be of the store that was intact."""
        self._was_held = False
        self._is_mirrored = True
        self.problem = ""
        """What is wrong with the store; empty: deletes may go down."""

    @property
    def is_held(self) -> bool:
        """Tell whether downward deletes are held."""
        return bool(self.problem)

    @property
    def is_replaced(self) -> bool:
        """Tell whether the store is another one than at the beginning of the session.

        Its watches may not notice: a new store's revision can be beyond where they stand.
        """
        return self._sight is not None and self._sight.uid != self._first_uid

    @property
    def message(self) -> str:
        """The condition's message while deletes are held."""
        return sentence(self.problem, self.store, self._tenant.name)

    @property
    def store(self) -> str:
        """UID of the kube-system of the store that was seen last; empty when there is none."""
        return str(self._sight.uid) if self._sight else ""

    def wrote(self, tenant_revision: str) -> None:
        """Take note that something of this tenant revision went down."""
        self._newest = max(self._newest, revision_of(tenant_revision))

    def recall(self, stamps: Iterable[int]) -> None:
        """Take note of what super objects record that were not known when this began.

        As then, those beyond the store's own revision are of an earlier one.
        """
        if self._sight is not None:
            known = max(self._sight.revision, self._seen_revision())
            self._newest = max([self._newest, *(stamp for stamp in stamps if stamp <= known)])

    @property
    def is_count_due(self) -> bool:
        """Tell whether the store's epoch is older than what went down from it, or not mirrored."""
        sight = self._sight
        if sight is None or self.is_held:
            return False
        is_older = self._newest > sight.epoch_revision
        return is_older or self._record.epoch < sight.epoch or not self._is_mirrored

    async def engage(self, *, twin_uid: str, stamps: Iterable[int]) -> None:
        """Read the record and look at the store for the first time.

        `stamps` are the tenant revisions that super objects record. They only tell whether a count
        is due. Those beyond the store's own are of an earlier one, whose loss was confirmed.
        """
        root = await self._super_client.get(NAMESPACES, self._tenant.root)
        self._root_uid = root["metadata"]["uid"]
        self._record = record_of(root, twin_uid)
        sight = await self._look()
        self._newest = max((stamp for stamp in stamps if stamp <= sight.revision), default=0)
        self._first_uid = sight.uid
        if not self._record.uid:
            if not sight.uid:
                raise Wait("the tenant has no kube-system yet")
            await self.count_up()

    async def verify(self, since: float) -> None:
        """Return when the store was found intact later than `since`; raises Wait while held."""
        async with self._lock:
            if self._verified_at < since or self.is_held:
                await self._look()
        if self.is_held:
            raise Wait("deletes are held: the tenant's store is not the one we know")

    def check(self) -> None:
        """Raise Wait while deletes are held, without asking anybody."""
        if self.is_held:
            raise Wait("deletes are held: the tenant's store is not the one we know")

    async def look(self) -> None:
        """Look at the store and judge it."""
        async with self._lock:
            await self._look()

    async def confirm(self, uid: str) -> bool:
        """Take the store as the tenant's own if it is the one a person named.

        The session has to start anew then: its watches remember the old store's revisions.
        """
        async with self._lock:
            sight = await self._look()
            if not self.is_held or sight.uid != uid:
                return False
            _log.warning("brake.confirmed", problem=self.problem, store=uid)
            self._record = Record(
                uid=uid, revision=sight.revision, epoch=_counted(self._record, sight)
            )
            await self._count_up(sight)
            self._newest = 0
            self.problem = ""
        return True

    async def count_up(self) -> None:
        """Count the epoch up in the tenant and mirror it, if that is due."""
        async with self._lock:
            sight = await self._look()
            if not self.is_held:
                await self._count_up(sight)

    async def _look(self) -> Sight:
        started = self._clock()
        # Once deletes were held, what the watches have seen is of a store that may be bumped: taken
        # for the old one's, it would keep the old one from ever being known again. When that is
        # back, or the new one confirmed, the session begins anew.
        seen = 0 if self._was_held else self._seen_revision()
        record = Record(
            uid=self._record.uid,
            revision=max(self._record.revision, self._reached, seen),
            epoch=self._record.epoch,
        )
        sight = await look(self._tenant_client)
        problem = judge(record, sight)
        if not problem or sight.revision < seen:
            self._reached = record.revision
        if problem != self.problem:
            _log.warning("brake.judged", problem=problem or "none", store=sight.uid)
            self.problem = problem
            self._was_held = True
            self._judged()
        if not problem:
            self._sight = sight
            self._verified_at = started
        elif self._sight is None or self._sight.uid != sight.uid:
            self._sight = sight
        return sight

    async def _count_up(self, sight: Sight) -> None:
        epoch = _counted(self._record, sight)
        if self._newest > sight.epoch_revision or not sight.epoch or epoch != sight.epoch:
            epoch += 1
            written = await self._write_epoch(epoch, sight.epoch_revision)
        else:
            written = sight.epoch_revision  # counted before, only the mirror was lost
        self._record = Record(uid=sight.uid, revision=max(sight.revision, written), epoch=epoch)
        self._sight = Sight(
            uid=sight.uid, revision=self._record.revision, epoch=epoch, epoch_revision=written
        )
        self._is_mirrored = False
        await self._mirror()
        self._is_mirrored = True

    async def _mirror(self) -> None:
        """Write the record on the root namespace; raises Conflict when others write there too."""
        annotations = {
            wellknown.STORE_UID: self._record.uid,
            wellknown.STORE_REVISION: str(self._record.revision),
            wellknown.STORE_EPOCH: str(self._record.epoch),
        }
        root = self._tenant.root
        for left in reversed(range(_TRIES)):
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
        """Write an epoch in the tenant, where the ConfigMap is at `revision`; 0: there is none."""
        body: Object = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP, "namespace": SYSTEM_NAMESPACE},
            "data": {EPOCH: str(epoch)},
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
        return revision_of(written["metadata"]["resourceVersion"])


async def look(tenant_client: Client) -> Sight:
    """Return what a store shows now, from two live reads."""
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
    epoch = str((items[0].get("data") or {}).get(EPOCH, "")) if items else ""
    return Sight(
        uid=uid,
        revision=revision_of(found["metadata"]["resourceVersion"]),
        epoch=revision_of(epoch),
        epoch_revision=revision_of(items[0]["metadata"]["resourceVersion"]) if items else 0,
    )
