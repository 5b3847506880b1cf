"""Connection flags: the API server, the user and the namespace.

Must not import the client. `kubectl_vc.client.connection` does.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFlags:
    """The connection flags. For an empty value the kubeconfig applies."""

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""
    as_user: str = ""
    as_groups: tuple[str, ...] = ()
    request_timeout_seconds: float = 0
    """Time limit in seconds for one request. 0 stands for the client's own limit."""
