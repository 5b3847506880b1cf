"""Memory of one session about running pods: those in sync, and the tokens that they wait for.

Must not decide. The keys rebuild it after a restart. Hazard: it must be bounded by pods that exist.
Otherwise a tenant fills it.
"""

from syncer.model.keys import Key
from syncer.rules.pods.token_specs import TokenSpec


class PodMemory:
    """Memory about the pods of one session."""

    def __init__(self) -> None:
        self._in_sync: dict[Key, tuple[int, int]] = {}
        self._tokens: dict[Key, TokenSpec] = {}

    def record_in_sync(self, key: Key, digests: tuple[int, int]) -> None:
        """Record that a running pod equals its twin, with the metadata digests of both sides."""
        self._in_sync[key] = digests

    def is_in_sync(self, key: Key, digests: tuple[int, int]) -> bool:
        """Return True if a pod was recorded with these digests, so only a status has changed."""
        return self._in_sync.get(key) == digests

    def forget_pod(self, key: Key) -> None:
        """Forget a pod by its name, which belongs to no pod or to a different pod now."""
        self._in_sync.pop(key, None)

    def add_awaited_token(self, key: Key, token: TokenSpec) -> None:
        """Record a token Secret that pods wait for."""
        self._tokens[key] = token

    def get_awaited_token(self, key: Key) -> TokenSpec | None:
        """Return the token of a Secret that pods wait for, or None."""
        return self._tokens.get(key)

    def forget_token(self, key: Key) -> None:
        """Forget a token Secret that exists, or that no pod needs."""
        self._tokens.pop(key, None)
