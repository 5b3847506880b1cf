"""Probe whether the super cluster enforces NetworkPolicies.

Owns the connections of the probe and their conclusion. vc-manager connects to the etcd of a tenant,
which the policies of the root namespace refuse, and to the API server, which they allow. No pod is
created. Must not know when the condition is written.

Hazard: a refused connection proves nothing without the allowed one. Otherwise a lost network would
look like enforcement.

Limit: etcd pods have an owner. A plugin that leaves out pods without one passes the probe. No
policy refuses vc-manager a connection to a pod of a tenant, so such a pod cannot be probed from
here. The pods of `kubectl vc audit` have no owner.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tenancy import wellknown
from vcmanager.plan.network import root_policies
from vcmanager.plan.network.root_policies import API_SERVER, ETCD
from vcmanager.runtime.observed import ObservedObjects
from vcmanager.runtime.status import StatusValue

PROBE_INTERVAL_SECONDS = 600.0
"""Time in seconds for which a result stands for all tenants, because plugins work cluster-wide."""
CONNECT_SECONDS = 2.0
"""Deadline in seconds of a connection. A policy usually drops packets without an answer."""

ConnectFunction = Callable[[str, int], Awaitable[bool]]


class EnforcementResult(NamedTuple):
    """Status, reason and message of the condition."""

    status: StatusValue
    reason: str
    message: str


ENFORCED = EnforcementResult(
    "True",
    "ConnectionRefused",
    "The super cluster enforces NetworkPolicies: it refused a connection to etcd. Some network"
    " plugins leave out pods without an owner, which etcd has. Run `kubectl vc audit` to check"
    " such pods.",
)
NOT_ENFORCED = EnforcementResult(
    "False",
    "ConnectionAccepted",
    "The super cluster does not enforce NetworkPolicies: it let vc-manager connect to etcd. Pods of"
    " tenants can reach each other. Use a network plugin that enforces NetworkPolicies.",
)
UNKNOWN = EnforcementResult(
    "Unknown",
    "NoConnection",
    "vc-manager cannot connect to the API server pod, so the probe of NetworkPolicies has no"
    " result.",
)


def conclude(*, is_etcd_reached: bool, is_api_reached: bool) -> EnforcementResult:
    """Return the result of two connections."""
    if is_etcd_reached:
        return NOT_ENFORCED
    return ENFORCED if is_api_reached else UNKNOWN


async def connect(host: str, port: int) -> bool:
    """Return whether a TCP connection is accepted within the deadline."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except OSError:  # TimeoutError is one
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True


class PolicyEnforcementProbe:
    """Probe of the super cluster, with its last result."""

    def __init__(self, connection: ConnectFunction = connect) -> None:
        self._connect = connection
        self._result: EnforcementResult | None = None
        self._expires = 0.0

    async def probe(self, observed: ObservedObjects) -> EnforcementResult | None:
        """Return the last result, renewed after the interval. None without pods to connect to."""
        now = asyncio.get_running_loop().time()
        if self._result is not None and now < self._expires:
            return self._result
        etcd, api = (_find_address(observed, component) for component in (ETCD, API_SERVER))
        if not etcd or not api:
            return self._result
        is_etcd_reached, is_api_reached = await asyncio.gather(
            self._connect(etcd, root_policies.ETCD_PEER_PORT),
            self._connect(api, wellknown.API_SERVER_PORT),
        )
        self._result = conclude(is_etcd_reached=is_etcd_reached, is_api_reached=is_api_reached)
        self._expires = now + PROBE_INTERVAL_SECONDS
        return self._result


def _find_address(observed: ObservedObjects, component: str) -> str:
    """Return the address of a ready pod of a component. Empty if there is none."""
    for pod in observed.iterate_pods(component):
        found = pod.get("status") or {}
        if any(
            each.get("type") == "Ready" and each.get("status") == "True"
            for each in found.get("conditions") or ()
        ):
            return str(found.get("podIP") or "")
    return ""
