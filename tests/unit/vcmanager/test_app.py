import asyncio

import pytest

from vcmanager import app


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
