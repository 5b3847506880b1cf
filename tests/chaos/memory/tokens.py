"""Tokens of pods: below while a pod needs one, and never past their time.

Owns that part of the invariant I1. Must not know what a token is made of.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from tenancy import wellknown
from tenancy.resources import PODS, SECRETS
from tests.chaos.memory.loop import EPOCH
from tests.chaos.oracles import Violation
from tests.support.memapi.watches import Object

if TYPE_CHECKING:
    from tests.chaos.memory.tenant import SimulatedTenant
    from tests.chaos.memory.world import MachineWorld

SECONDS = 600
"""How long a pod asks a token to be good for. It is renewed at half of that."""
VOLUME = "token"
_LATE_SECONDS = 60.0
_PREFIX = "vc-token-"


def volume(audience: str) -> Object:
    """Return the volume of a pod that wants a token. Without an audience it is of the tenant's API.

    Those are good for two hours, and shared. One with an audience is the pod's own.
    """
    asked = {"path": "token", "expirationSeconds": SECONDS}
    source = {"serviceAccountToken": {**asked, **({"audience": audience} if audience else {})}}
    return {"name": VOLUME, "projected": {"sources": [source]}}


def missing(world: MachineWorld, twin: Object) -> list[str]:
    """Return what a pod below lacks of the tokens that it mounts."""
    namespace = twin["metadata"]["namespace"]
    return [
        f"its token {name} is not there"
        for name in _mounted(twin)
        if world.below.of(SECRETS).get(namespace, name) is None
    ]


def problems(world: MachineWorld, tenant: SimulatedTenant, secret: Object) -> list[Violation]:
    """Return what is wrong with a token that is below."""
    metadata = secret["metadata"]
    title = f"{tenant.side}: the token of {metadata['annotations'][wellknown.ACCOUNT]}"
    users = [
        stored
        for stored in world.below.of(PODS).all()
        if stored.namespace == metadata["namespace"]
        and metadata["name"] in _mounted(stored.decode())
    ]
    if not users and not any(_asks(body, metadata) for _, body in tenant.alive.values()):
        return [Violation("I1", f"{title} is there, and nobody mounts it")]
    renewed = dt.datetime.fromisoformat(metadata["annotations"][wellknown.TOKEN_RENEW]).timestamp()
    if renewed + _LATE_SECONDS < EPOCH + world.loop.time():
        return [Violation("I1", f"{title} was to be renewed a while ago")]
    return []


def _asks(pod: Object, secret: Object) -> bool:
    """Return whether a tenant's pod asks for a token, be it finished or not."""
    return (
        pod["kind"] == PODS.kind
        and pod["metadata"]["namespace"] == secret["annotations"][wellknown.NAMESPACE]
        and any(each["name"] == VOLUME for each in pod["spec"].get("volumes") or ())
    )


def _mounted(twin: Object) -> set[str]:
    """Return the names of the Secrets with tokens that a super pod mounts."""
    found = set()
    for volume in twin["spec"].get("volumes") or ():
        sources = (volume.get("projected") or {}).get("sources") or ()
        named = [(each.get("secret") or {}).get("name", "") for each in sources]
        named.append((volume.get("secret") or {}).get("secretName", ""))
        found |= {name for name in named if name.startswith(_PREFIX)}
    return found
