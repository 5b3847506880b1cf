"""What the flags say about which API server to talk to, as whom, and in which namespace.

Must not import what talks to it: `kubectl_vc.client.connection` does.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Empty values mean what the kubeconfig says."""

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""
    as_user: str = ""
    as_groups: tuple[str, ...] = ()
    request_seconds: float = 0
    """Longest time for one request; 0: the client's own limit."""
