"""Reasons for a refused request: an HTTP status, a reason from a closed set, a message.

The closed set of reasons is also a metric label. The module must not know how responses are
written. Hazard: a message goes to the tenant, so it must never contain a super-side name or another
tenant's name. Otherwise a tenant learns about the super cluster or about another tenant.
"""

from enum import StrEnum


class RefusalReason(StrEnum):
    """Reasons for an early end of a request. The set is closed, so it is a safe metric label."""

    MALFORMED = "malformed"
    NO_ROUTE = "no_route"
    BAD_METHOD = "bad_method"
    BAD_QUERY = "bad_query"
    NOT_AN_UPGRADE = "not_an_upgrade"
    NOT_FOUND = "not_found"
    CONTAINER = "container"
    AMBIGUOUS = "ambiguous"
    HOST_NETWORK = "host_network"
    METRICS_ONLY = "metrics_only"
    SWITCHED_OFF = "disabled"
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
    KUBELET_ODD = "kubelet_malformed"
    KUBELET_LARGE = "kubelet_large"
    API_DOWN = "api_down"
    API_UNTRUSTED = "api_untrusted"
    API_DENIES = "api_denies"
    API_ODD = "api_malformed"
    API_LARGE = "api_large"
    API_BUSY = "api_busy"
    TENANT_FAST = "tenant_fast"
    NO_HOST = "no_host"
    NOT_OFFERED = "not_offered"


class RequestRefusedError(Exception):
    """A request that the agent refuses and answers itself."""

    def __init__(self, status: int, reason: RefusalReason, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.reason = reason
        self.sentence = sentence
