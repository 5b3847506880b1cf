"""Reads without all rights: what may not be read is never absent."""

from typing import Any

import pytest

from kubectl_vc.client.permissive_reader import PermissiveReader
from kubeio import errors
from tenancy.resources import NODES, PODS


class RefusingClient:
    """Raises one error for each read."""

    def __init__(self, problem: Exception | None) -> None:
        self.problem = problem

    async def get(self, *_: Any, **__: Any) -> dict[str, Any]:
        if self.problem is not None:
            raise self.problem
        return {"metadata": {}}

    async def list(self, *_: Any, **__: Any) -> dict[str, Any]:
        if self.problem is not None:
            raise self.problem
        return {"items": [{"metadata": {}}]}


FORBIDDEN = errors.Forbidden("no", status=403, reason="Forbidden")
NOT_FOUND = errors.NotFound("no", status=404, reason="NotFound")


def reader(problem: Exception | None) -> PermissiveReader:
    """Return a reader of a client that refuses."""
    return PermissiveReader(RefusingClient(problem))  # type: ignore[arg-type]


async def test_objects_are_returned():
    found = reader(None)
    assert await found.get(NODES, "n") == {"metadata": {}}
    assert await found.list(PODS, "shop") == [{"metadata": {}}]
    assert found.unknown == ()


async def test_absent_objects_are_known():
    found = reader(NOT_FOUND)
    assert await found.get(NODES, "n") is None
    assert await found.list(PODS, "shop") == []
    assert found.is_known(NODES)
    assert found.is_known(PODS, "shop")


async def test_refused_objects_are_unknown():
    found = reader(FORBIDDEN)
    assert await found.get(NODES, "n") is None
    assert await found.list(PODS, "shop") == []
    assert found.unknown == ("nodes", "pods in shop")
    assert not found.is_known(NODES)
    assert not found.is_known(PODS, "shop")
    assert found.is_known(PODS, "other")


async def test_other_failures_are_not_hidden():
    with pytest.raises(errors.Unavailable):
        await reader(errors.Unavailable("down")).get(NODES, "n")
