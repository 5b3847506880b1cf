"""Attempts with a stolen token, all of which a real server must refuse."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kubeio import Object
from kubeio.api.client import Client
from kubeio.errors import ApiError
from tests.support.eventually import eventually

MIN_ATTEMPTS = 30
"""Number of attempts per token. Fewer would leave out a kind of object or of namespace."""
_PATCH = "application/merge-patch+json"
_CONNECT = re.compile(r"/(exec|attach|portforward|proxy)\b")
"""Subresources without a dry run. No kubelet exists here, so nothing is reached."""


class Attempt(NamedTuple):
    """One request outside of the purpose of an account."""

    verb: str
    path: str
    body: Object | None = None

    async def send(self, client: Client) -> ApiError | None:
        """Send the request, as a dry run where that is possible. Return the error of the server."""
        path = self.path
        if self.verb != "GET" and not _CONNECT.search(path):
            path += f"{'&' if '?' in path else '?'}dryRun=All"
        content = _PATCH if self.verb == "PATCH" else "application/json"
        try:
            await client.raw(self.verb, path, body=self.body, content=content)
        except ApiError as problem:
            return problem
        return None


async def check_refused(client: Client, attempts: Sequence[Attempt], *, reason: str = "") -> None:
    """Check that the server refuses each attempt with a 403.

    With `reason`, the message must have these words. They name an admission policy.
    """
    assert len({(each.verb, each.path, str(each.body)) for each in attempts}) >= MIN_ATTEMPTS

    async def look(attempt: Attempt) -> bool:
        problem = await attempt.send(client)
        assert problem is not None, f"the server let {attempt} pass"
        assert problem.status == 403, (attempt, str(problem))
        assert reason in problem.server_message, (attempt, str(problem))
        return True

    for attempt in attempts:  # A server knows a new policy or binding after a moment.
        await eventually(lambda each=attempt: look(each))


def list_streams(namespace: str, pod: str) -> list[Attempt]:
    """Return all requests that open a stream to a pod, by POST and by WebSocket."""
    return [
        Attempt(verb, f"/api/v1/namespaces/{namespace}/pods/{pod}/{subresource}{query}")
        for verb in ("POST", "GET")
        for subresource, query in (
            ("exec", "?command=sh&stdout=true"),
            ("attach", "?stdout=true"),
            ("portforward", ""),
        )
    ]


async def check_passes(client: Client, attempt: Attempt) -> None:
    """Check that neither RBAC nor admission refuses a request that needs a kubelet.

    There are no kubelets here, so the server answers with an error about the host of the pod.
    """

    async def look() -> bool:
        problem = await attempt.send(client)
        assert problem is None or problem.status != 403, (attempt, str(problem))
        return True

    await eventually(look)
