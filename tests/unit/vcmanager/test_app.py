import asyncio
from types import SimpleNamespace

import pytest

from kubeio import errors
from tests.support.eventually import eventually
from vcmanager import app
from vcmanager.runtime.options import OperatorSettings


async def test_when_the_lease_is_lost_the_work_ends_before_anything_else():
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("work")

    working = asyncio.create_task(work())
    never = asyncio.get_running_loop().create_future()

    async def hold() -> None:
        try:
            await app._wait_first([never], or_cancel=working)
        finally:
            ended.append("watches")

    holding = asyncio.create_task(hold())
    await asyncio.sleep(0)
    holding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await holding
    assert ended == ["work", "watches"]


async def test_an_orderly_end_leaves_the_work_in_hand_alone():
    working = asyncio.create_task(asyncio.Event().wait())
    stopped = asyncio.create_task(asyncio.sleep(0))
    await app._wait_first([stopped], or_cancel=working)
    assert not working.cancelled()
    working.cancel()


class CrdServer:
    """A client of a super cluster that fails in these ways, one for each attempt."""

    def __init__(self, *problems):
        self.problems = list(problems)
        self.listed = []

    async def list(self, kind, *, limit):
        if self.problems:
            raise self.problems.pop(0)
        self.listed.append((kind.kind, limit))


def manager(client, stop, **more):
    settings = OperatorSettings(registry="", **more)
    return app._Manager(SimpleNamespace(settings=settings), None, client, stop)


@pytest.mark.parametrize(
    "problem",
    [errors.NotFound("no such kind"), errors.ServerError("starting"), errors.NotSent("refused")],
)
async def test_the_start_waits_for_the_crds(monkeypatch, problem):
    monkeypatch.setattr(app, "_RETRY_SECONDS", 0.001)
    client = CrdServer(problem, problem)
    assert await manager(client, asyncio.Event())._wait_for_crds()
    assert [kind for kind, _ in client.listed] == [
        "VirtualCluster",
        "TenantPolicy",
        "SuperCluster",
        "SyncRule",
        "VirtualClusterSnapshot",
    ]


async def test_a_provider_of_cluster_api_waits_for_its_own_kind():
    client = CrdServer()
    assert await manager(client, asyncio.Event(), cluster_api=True)._wait_for_crds()
    assert client.listed[-1][0] == "VirtualClusterControlPlane"


async def test_the_start_fails_where_waiting_does_not_help():
    client = CrdServer(errors.Forbidden("no rights"))
    with pytest.raises(errors.Forbidden):
        await manager(client, asyncio.Event())._wait_for_crds()


async def test_a_stop_ends_the_wait_for_the_crds_at_once():
    stop, client = asyncio.Event(), CrdServer(errors.NotFound("no such kind"))
    waiting = asyncio.create_task(manager(client, stop)._wait_for_crds())
    await eventually(lambda: not client.problems)
    stop.set()
    assert not await asyncio.wait_for(waiting, 1.0)
    assert client.listed == []
