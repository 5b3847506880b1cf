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
from kubeio.controller.worker import Again, Done, Verdict
from syncer.controllers import adoption
from syncer.controllers.sync_down import is_used_below
from syncer.model.decide import Grounds
from syncer.model.keys import TOKEN, Key
from syncer.model.references import ACCOUNT_TOKEN, POD_TOKEN, Ref
from syncer.rules.pods import token_specs
from syncer.rules.pods.token_specs import TokenSpec
from syncer.rules.registry import BY_NAME
from syncer.safety.expectations import BEHIND_SECONDS, Side
from syncer.safety.proven_deletes import Target
from syncer.tenants.session import Session
from tenancy import wellknown
from tenancy.resources import SECRETS, SERVICE_ACCOUNTS

ACCOUNT_GONE_SECONDS = 60.0
"""Retry interval in seconds for a token whose account does not exist."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


def demand(token: TokenSpec, session: Session) -> Key | None:
    """Return the key of a token Secret that a pod must wait for, or None if it exists."""
    key = session.key(TOKEN, token.namespace, token.secret_name)
    entry = _below(key, session)
    is_there = entry is not None and not (entry.deleting or session.is_leaving(key, entry))
    if is_there and session.is_twin(entry, token.account_uid):
        return None
    session.reminders.tokens[key] = token
    return key


def _below(key: Key, session: Session) -> Entry | None:
    return session.super_store("Secret").get(session.view.super_namespace(key.namespace), key.name)


async def reconcile(key: Key, session: Session) -> Verdict:
    """Create, renew or delete one token Secret."""
    entry = _below(key, session)
    if session.is_behind(key, None, entry):
        return Again(BEHIND_SECONDS)
    if entry is None:
        return await _make(key, session)
    session.reminders.tokens.pop(key, None)
    token = token_specs.spec_of_secret(entry.annotations, session.tenant.registration)
    if token is None or entry.deleting or not session.is_twin(entry, token.account_uid):
        return Done()
    # The Secret of an earlier account may outlive the account.
    mounted = Ref(SECRETS.kind, entry.name)
    if not is_needed(token, session) and not is_used_below(mounted, entry.namespace, session):
        lingering = session.grace_timers.left_to_linger(key)
        if lingering > 0:
            return Again(lingering)
        await _remove(key, entry, session, is_still=lambda: not is_needed(token, session))
        return Done()
    session.grace_timers.needed(key)
    left, secret = 0.0, entry.decode()
    if token_specs.is_as_written(secret):  # otherwise the mounted value was changed
        left = token_specs.seconds_to_renewal(entry.annotations, datetime.now(UTC))
    return Again(left) if left > 0 else await _renew(key, token, entry, session, secret=secret)


async def _renew(
    key: Key, token: TokenSpec, entry: Entry, session: Session, *, secret: Object
) -> Verdict:
    if not secret.get("immutable"):
        return await _write(key, token, entry, session)
    session.reminders.tokens[key] = token  # immutable, so its end recreates it
    await _remove(key, entry, session)
    return Done()


async def _remove(
    key: Key, entry: Entry, session: Session, *, is_still: Callable[[], bool] = lambda: True
) -> None:
    target = Target(
        key=key, resource=SECRETS, entry=entry, grounds=Grounds.UNWANTED, has_tenant_twin=False
    )
    with session.leaving(key, entry):
        await session.deletions.delete(target, is_still=is_still)


async def _make(key: Key, session: Session) -> Verdict:
    token = session.reminders.tokens.get(key)
    if token is None or not is_needed(token, session):
        session.reminders.tokens.pop(key, None)
        await adoption.look(BY_NAME[SECRETS.kind], key, session)
        return Done()
    session.ready_namespace(key)
    return await _write(key, token, None, session)


def is_needed(token: TokenSpec, session: Session) -> bool:
    """Return True if a pod of the tenant needs a token."""
    bound, shared = Ref(POD_TOKEN, token.pod_uid), Ref(ACCOUNT_TOKEN, token.account)
    return session.pods.references.is_used(token.namespace, bound if token.pod_uid else shared)


async def _write(key: Key, token: TokenSpec, entry: Entry | None, session: Session) -> Verdict:
    """Request a token from the tenant and write it to the super cluster."""
    try:
        answer = await session.tenant_client.create(
            SERVICE_ACCOUNTS,
            token.request(),
            namespace=token.namespace,
            name=token.account,
            subresource="token",
        )
    except errors.NotFound:
        return Again(ACCOUNT_GONE_SECONDS)  # no account or pod, and the mounted token expires
    status, now = answer["status"], datetime.now(UTC)
    expires = datetime.fromisoformat(status["expirationTimestamp"])
    namespace = session.view.super_namespace(key.namespace)
    secret = token_specs.secret_of(
        token, session.tenant, namespace, status["token"], expires=expires, now=now
    )
    secret["metadata"]["name"] = key.name  # a recreated account keeps the name
    if entry is None:
        try:
            written = await session.super_client.create(
                SECRETS, secret, field_manager=wellknown.SYNCER
            )
        except errors.AlreadyExists:
            session.lost_twins.lost_sight_of(key, (namespace, key.name))
            await adoption.look(BY_NAME[SECRETS.kind], key, session)
            return Again(BEHIND_SECONDS)
    else:
        secret["metadata"] |= {"uid": entry.uid, "resourceVersion": entry.resource_version}
        written = await session.super_client.replace(
            SECRETS, secret, field_manager=wellknown.SYNCER
        )
    session.expectations.wrote(Side.SUPER, key, written["metadata"]["resourceVersion"])
    session.fuse.wrote(key)
    _log.info("token.written", expires=expires.isoformat(), renewed=entry is not None)
    return Again(token_specs.seconds_to_renewal(secret["metadata"]["annotations"], now))
