"""Reconciler of token Secrets: requested from the tenant's API, and renewed at half their lifetime.

Owns the writes. A Secret describes its own contents, so a renewal after a restart needs no other
source. A Secret that does not exist yet is described by the pods that wait for it. Hazard: a token
is a credential and must be copied from the answer into the body only. Otherwise it would leak.
"""

from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from kubeio import Object, errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import Done, RequeueAfter, Result
from syncer.controllers import adoption
from syncer.model.keys import TOKEN, Key
from syncer.model.references import ACCOUNT_TOKEN, POD_TOKEN, ObjectReference
from syncer.rules.pods import token_specs
from syncer.rules.pods.token_specs import TokenSpec
from syncer.safety import proven_deletes
from syncer.safety.expectations import CACHE_BEHIND_SECONDS
from syncer.tenants.session import Session
from tenancy.resources import SECRETS, SERVICE_ACCOUNTS

ACCOUNT_RETRY_SECONDS = 60.0
"""Retry interval in seconds for a token whose account does not exist."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


def get_missing_token_key(token: TokenSpec, session: Session) -> Key | None:
    """Return the key of a token Secret that a pod must wait for, or None if it exists."""
    key = session.build_key(TOKEN, token.namespace, token.secret_name)
    entry = _get_super_secret(key, session)
    is_there = entry is not None and not (entry.deleting or session.twins.is_leaving(key, entry))
    if is_there and session.twins.is_twin(entry, token.account_uid):
        return None
    session.pod_memory.add_awaited_token(key, token)
    return key


def _get_super_secret(key: Key, session: Session) -> Entry | None:
    return session.twins.get_store("Secret").get(
        session.view.get_super_namespace(key.namespace), key.name
    )


async def reconcile_token(key: Key, session: Session) -> Result:
    """Create, renew or delete one token Secret."""
    entry = _get_super_secret(key, session)
    if session.twins.is_behind(key, None, entry):
        return RequeueAfter(CACHE_BEHIND_SECONDS)
    if entry is None:
        return await _create_token(key, session)
    session.pod_memory.forget_token(key)
    token = token_specs.parse_secret(entry.annotations, session.tenant.super_cluster_uid)
    if token is None or entry.deleting or not session.twins.is_twin(entry, token.account_uid):
        return Done()
    # The Secret of an earlier account may outlive the account.
    mounted = ObjectReference(SECRETS.kind, entry.name)
    if not is_token_needed(token, session) and not session.twins.is_named_by_pod(
        mounted, entry.namespace
    ):
        lingering = session.grace_timers.get_remaining_grace(key)
        if lingering > 0:
            return RequeueAfter(lingering)
        await _delete_token(
            key, entry, session, is_still=lambda: not is_token_needed(token, session)
        )
        return Done()
    session.grace_timers.clear_unused(key)
    left, secret = 0.0, entry.decode()
    if token_specs.is_secret_unchanged(secret):  # otherwise the mounted value was changed
        left = token_specs.compute_seconds_to_renewal(entry.annotations, datetime.now(UTC))
    return (
        RequeueAfter(left)
        if left > 0
        else await _renew_token(key, token, entry, session, secret=secret)
    )


async def _renew_token(
    key: Key, token: TokenSpec, entry: Entry, session: Session, *, secret: Object
) -> Result:
    if not secret.get("immutable"):
        return await _request_and_write(key, token, entry, session)
    session.pod_memory.add_awaited_token(key, token)  # immutable, so its end recreates it
    await _delete_token(key, entry, session)
    return Done()


async def _delete_token(
    key: Key, entry: Entry, session: Session, *, is_still: Callable[[], bool] = lambda: True
) -> None:
    target = proven_deletes.build_own_target(key, SECRETS, entry)
    with session.twins.mark_leaving(key, entry):
        await session.proven_deletes.delete_proven(target, is_still=is_still)


async def _create_token(key: Key, session: Session) -> Result:
    token = session.pod_memory.get_awaited_token(key)
    if token is None or not is_token_needed(token, session):
        session.pod_memory.forget_token(key)
        await adoption.find_vanished_twin(session.kinds[SECRETS.kind], key, session)
        return Done()
    session.namespaces.get_ready(key)
    session.quota.check_not_waiting(key)  # before a token is issued
    return await _request_and_write(key, token, None, session)


def is_token_needed(token: TokenSpec, session: Session) -> bool:
    """Return True if a pod of the tenant needs a token."""
    bound, shared = (
        ObjectReference(POD_TOKEN, token.pod_uid),
        ObjectReference(ACCOUNT_TOKEN, token.account),
    )
    return session.pods.references.is_used(token.namespace, bound if token.pod_uid else shared)


async def _request_and_write(
    key: Key, token: TokenSpec, entry: Entry | None, session: Session
) -> Result:
    """Request a token from the tenant and write it to the super cluster."""
    try:
        answer = await session.writer.create_unguarded(
            SERVICE_ACCOUNTS,
            token.build_request(),
            namespace=token.namespace,
            name=token.account,
            subresource="token",
            field_manager="",
        )
    except errors.NotFound:
        return RequeueAfter(
            ACCOUNT_RETRY_SECONDS
        )  # no account or pod, and the mounted token expires
    status, now = answer["status"], datetime.now(UTC)
    expires = datetime.fromisoformat(status["expirationTimestamp"])
    namespace = session.view.get_super_namespace(key.namespace)
    secret = token_specs.build_secret(
        token, session.tenant, namespace, status["token"], expires=expires, now=now
    )
    secret["metadata"]["name"] = key.name  # a recreated account keeps the name
    if entry is None:
        try:
            await session.writer.create_super_object(key, SECRETS, secret)
        except errors.AlreadyExists:
            session.lost_twins.record_vanished_twin(key, (namespace, key.name))
            await adoption.find_vanished_twin(session.kinds[SECRETS.kind], key, session)
            return RequeueAfter(CACHE_BEHIND_SECONDS)
    else:
        secret["metadata"] |= {"uid": entry.uid, "resourceVersion": entry.resource_version}
        await session.writer.replace_super_object(key, SECRETS, secret)
    _log.info("token.written", expires=expires.isoformat(), renewed=entry is not None)
    return RequeueAfter(
        token_specs.compute_seconds_to_renewal(secret["metadata"]["annotations"], now)
    )
