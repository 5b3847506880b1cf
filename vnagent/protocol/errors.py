"""Why a request is not served: an HTTP status, a reason from a closed set, a sentence.

Owns the closed set of reasons, which is also a metric label. Must not know how answers are written.
Hazard: a sentence goes to the tenant, so it never holds a super-side name or another tenant's.
"""

from enum import StrEnum


class Reason(StrEnum):
    """Every way in which a request can end early; a closed set, safe as a metric label."""

    MALFORMED = "malformed"
    NO_ROUTE = "no_route"
    BAD_METHOD = "bad_method"
    BAD_QUERY = "bad_query"
    NOT_AN_UPGRADE = "not_an_upgrade"
    NOT_FOUND = "not_found"
    CONTAINER = "container"
    AMBIGUOUS = "ambiguous"
    HOST_NETWORK = "host_network"
    FIGURES_ONLY = "figures_only"
    SWITCHED_OFF = "switched_off"
    NO_POLICY = "no_policy"
    TENANT_FULL = "tenant_full"
    AGENT_FULL = "agent_full"
    READS_FULL = "reads_full"
    DRAINING = "draining"
    SILENT = "silent"
    SLOW = "slow"
    KUBELET_DOWN = "kubelet_down"
    KUBELET_UNTRUSTED = "kubelet_untrusted"
    KUBELET_DENIES = "kubelet_denies"
    KUBELET_ODD = "kubelet_odd"
    KUBELET_LARGE = "kubelet_large"
    API_DOWN = "api_down"
    API_UNTRUSTED = "api_untrusted"
    API_DENIES = "api_denies"
    API_ODD = "api_odd"
    API_LARGE = "api_large"
    API_BUSY = "api_busy"
    TENANT_FAST = "tenant_fast"
    NO_HOST = "no_host"
    NOT_OFFERED = "not_offered"


class RefusedError(Exception):
    """A request that is answered by the agent itself."""

    def __init__(self, status: int, reason: Reason, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.reason = reason
        self.sentence = sentence
