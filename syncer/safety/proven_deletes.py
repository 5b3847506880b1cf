"""Deleting a super object: what a delete rests on decides how it is proved.

Owns the one place where the syncer deletes downward. Must not know why. An object that was seen to
go, or that carries a deletionTimestamp, is deleted with its UID as precondition. Absence from a
cache is no more than a suspicion: both sides are read live, and the tenant's store must still be
the one we know after that. Hazard: any other delete of a super object bypasses the brake.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import structlog

from kubeio import errors
from kubeio.api.client import Client
from kubeio.cache.store import Entry
from kubeio.controller.worker import Wait
from syncer.model.decide import Grounds
from syncer.model.keys import Key
from syncer.safety.expectations import Expectations, Side
from syncer.safety.store_guard import Brake
from tenancy import ownership
from tenancy.resources import Resource

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


def never(_: Mapping[str, Any]) -> bool:
    """Tell of no object that a watch leaves it out."""
    return False


_RESTS_ON_ABSENCE = frozenset({Grounds.ABSENT, Grounds.SUCCEEDED})


class Target(NamedTuple):
    """What is to be deleted, and the tenant object that is gone."""

    key: Key
    resource: Resource
    entry: Entry
    """The super object as the cache has it."""
    grounds: Grounds
    has_tenant_twin: bool = True
    """Whether a tenant object of the key's name stands behind it; a token Secret has none."""
    is_hidden: Callable[[Mapping[str, Any]], bool] = never
    """Whether a tenant object with this metadata counts as absent, as its watch leaves it out."""


def _version(answer: Mapping[str, Any]) -> str:
    """Return the version of an object that was deleted; one that went meanwhile has none."""
    return str(answer["metadata"].get("resourceVersion") or "")


class _End(NamedTuple):
    uid: str
    forced: bool


class Deletions:
    """Deletes the super objects of one tenant."""

    def __init__(
        self,
        *,
        brake: Brake,
        tenant_client: Client,
        super_client: Client,
        expectations: Expectations,
        registration: str = "",
    ) -> None:
        """`registration` is the tenant's, as in `tenancy.ownership`."""
        self._brake = brake
        self._tenant_client = tenant_client
        self._super_client = super_client
        self._expectations = expectations
        self._registration = registration
        self._gone: dict[Key, _End] = {}

    def saw_gone(self, key: Key, uid: str, *, forced: bool = False) -> None:
        """Take note that a running watch showed the end of a tenant object.

        `forced`: a pod went at once although a node ran it, as its tenant had asked.
        """
        self._gone[key] = _End(uid, forced)

    def was_forced(self, key: Key, uid: str) -> bool:
        """Tell whether the tenant was seen to force the end of an object."""
        return self._gone.get(key) == _End(uid, forced=True)

    def forget(self, key: Key) -> None:
        """Drop the note: the twin is gone, too."""
        self._gone.pop(key, None)

    async def delete(
        self,
        target: Target,
        *,
        grace_seconds: int | None = None,
        as_seen: bool = False,
        is_still: Callable[[], bool] = lambda: True,
    ) -> None:
        """Delete a super object when that is proved; raises Wait when it is not.

        `as_seen`: its tenant object is there, and it goes only in the version that the cache has;
        raises Conflict when it is another one. `is_still` is asked last of all, as a proof takes
        its time: whether there is still reason to.
        """
        self._brake.check()
        revision = ""
        if as_seen:
            revision = target.entry.resource_version
        elif self._needs_proof(target):
            revision = await self._prove(target)
            if not revision:
                return
            if not is_still():
                raise Wait("it is needed again")
        try:
            answer = await self._super_client.delete(
                target.resource,
                target.entry.name,
                namespace=target.entry.namespace,
                uid=target.entry.uid,
                resource_version=revision,
                grace_seconds=grace_seconds,
                propagation="Background",
            )
        except errors.NotFound:
            return
        _log.debug("super.deleted", grounds=target.grounds.name.lower(), grace=grace_seconds)
        version = "" if answer.get("kind") == "Status" else _version(answer)
        self._expectations.deleted(Side.SUPER, target.key, target.entry, version, taken=True)

    def _needs_proof(self, target: Target) -> bool:
        if target.grounds is Grounds.MARKED:
            return False
        owner = ownership.owner_of({"annotations": target.entry.annotations}, self._registration)
        seen = self._gone.get(target.key)
        return seen is None or owner is None or seen.uid != owner.uid

    async def _prove(self, target: Target) -> str:
        """Read both sides live; returns the super object's version, empty when it is gone."""
        owner = ownership.owner_of({"annotations": target.entry.annotations}, self._registration)
        if target.grounds in _RESTS_ON_ABSENCE and target.has_tenant_twin:
            tenant_uid = await self._tenant_uid(target)
            if owner is not None and tenant_uid == owner.uid:
                raise Wait("the tenant object lives, the cache is behind", 1.0)
        await self._brake.verify(time.monotonic())  # not before the tenant's answer was read
        try:
            live = await self._super_client.get(
                target.resource,
                target.entry.name,
                namespace=target.entry.namespace,
                metadata_only=True,
            )
        except errors.NotFound:
            return ""
        metadata = live["metadata"]
        if (
            metadata["uid"] != target.entry.uid
            or ownership.owner_of(metadata, self._registration) != owner
        ):
            raise Wait("the super object is another one now, the cache is behind", 1.0)
        return str(metadata["resourceVersion"])

    async def _tenant_uid(self, target: Target) -> str:
        try:
            found = await self._tenant_client.get(
                target.resource,
                target.key.name,
                namespace=target.key.namespace,
                metadata_only=True,
            )
        except errors.NotFound:
            return ""
        return "" if target.is_hidden(found["metadata"]) else str(found["metadata"]["uid"])
