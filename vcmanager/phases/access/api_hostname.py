"""Host name of a tenant's API at the API proxy, and its condition.

Must not know how the proxy gets the name. Hazard: only an accepted name may be in a kubeconfig.
Otherwise the admin's credentials of one tenant would be presented to the API server of another.
"""

from dataclasses import dataclass

from kubeio import Object
from tenancy import wellknown
from tenancy.access import hosts
from tenancy.access.hosts import HostProblem
from vcmanager.runtime.host_watch import HostWatch
from vcmanager.runtime.status import ReconcileStatus

_FIELD = "spec.endpoint.hostname"
_OTHER_NAME = f"Set {_FIELD} to another DNS name"
_REMEDIES: dict[HostProblem, str] = {
    "HostnameTaken": (
        f"an older VirtualCluster has this host name and keeps it. {_OTHER_NAME}, or remove the"
        " field for a generated name."
    ),
    "HostnameReserved": (
        "names under the base domain of the API proxy are generated, each for one VirtualCluster."
        f" {_OTHER_NAME}, or remove the field."
    ),
    "InvalidHostname": (
        f"this is no DNS name that a certificate can have. {_OTHER_NAME} with at most 253"
        " characters."
    ),
}


@dataclass(frozen=True, slots=True)
class HostDecision:
    """The decision about the host name of one tenant."""

    accepted: str = ""
    """The name that the proxy serves. Empty: none."""
    is_refused: bool = False
    """Whether the tenant wants a name that it cannot have."""


def decide_hostname(watch: HostWatch | None, body: Object, status: ReconcileStatus) -> HostDecision:
    """Return the decision, and report it. Without a proxy there is nothing to report."""
    if watch is None:
        return HostDecision()
    claim = hosts.parse_claim(body)
    host = watch.build_host(claim)
    if not host:
        return HostDecision()
    problem = watch.find_problem(claim)
    if problem is not None:
        message = f"{_FIELD}: {host}: {_REMEDIES[problem]}"
        status.set_condition(
            wellknown.HOSTNAME_ACCEPTED, "False", problem, message, is_failure=True
        )
        return HostDecision(is_refused=True)
    message = f"The API proxy serves the API as {host}."
    status.set_condition(wellknown.HOSTNAME_ACCEPTED, "True", hosts.ACCEPTED, message)
    return HostDecision(accepted=host)
