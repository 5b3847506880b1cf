"""vc-manager that ends at one of its requests, before or after the effect of the request.

Owns the count of requests, and the state of a new process. Must not know an operation. Hazard: only
requests of a reconcile count. The recorder of Events posts whenever it likes.
"""

from __future__ import annotations

import contextvars
import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kubeio.api.client import Client
from vcmanager.runtime.context import ReconcileContext

_IN_RECONCILE = contextvars.ContextVar("_IN_RECONCILE", default=False)


class KilledError(BaseException):
    """The process ends here. No handler of the product catches it."""


class KillSwitch:
    """Counts the requests of reconciles, and ends the process at one of them."""

    def __init__(self) -> None:
        self.calls = 0
        self._at = 0
        self._is_done = False

    def arm(self, at: int, *, is_done: bool) -> None:
        """Kill at request number `at` from now on, after its effect if `is_done`. 0: never."""
        self.calls, self._at, self._is_done = 0, at, is_done

    @property
    def has_struck(self) -> bool:
        """Return whether the process was killed."""
        return 0 < self._at <= self.calls

    async def pass_on(self, transport: Any, method: str, words: Any, named: Any) -> Any:
        """Send a request, or end the process."""
        if not _IN_RECONCILE.get():
            return await transport.request(method, *words, **named)
        self.calls += 1
        is_here = self.calls == self._at
        if is_here and not self._is_done:
            raise KilledError
        answer = await transport.request(method, *words, **named)
        if is_here:
            raise KilledError
        return answer

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the requests of this block."""
        token = _IN_RECONCILE.set(True)
        try:
            yield
        finally:
            _IN_RECONCILE.reset(token)

    @contextmanager
    def watching(self, *clients: Client) -> Iterator[None]:
        """Count the requests of these clients while the block runs."""
        before = [client._transport for client in clients]
        for client in clients:
            client._transport = _Transport(client._transport, self)  # type: ignore[assignment]
        try:
            yield
        finally:
            for client, transport in zip(clients, before, strict=True):
                client._transport = transport


class _Transport:
    def __init__(self, inner: Any, switch: KillSwitch) -> None:
        self._inner = inner
        self._switch = switch

    async def request(self, method: str, *words: Any, **named: Any) -> Any:
        return await self._switch.pass_on(self._inner, method, words, named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def forget(means: ReconcileContext) -> ReconcileContext:
    """Return the means of a new process, which remembers nothing."""
    kept = {"tenant_clients"}
    fresh = {
        each.name: each.default_factory()
        for each in dataclasses.fields(means)
        if each.default_factory is not dataclasses.MISSING and each.name not in kept
    }
    return dataclasses.replace(means, **fresh)
