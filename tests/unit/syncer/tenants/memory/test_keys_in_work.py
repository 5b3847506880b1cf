"""The end of a session waits for its keys in work."""

from __future__ import annotations

import asyncio

from syncer.tenants.memory.keys_in_work import KeysInWork
from tests.support.syncer.idle import idle


async def test_without_keys_in_work_nothing_is_waited_for():
    await asyncio.wait_for(KeysInWork().wait_idle(), 1)


async def test_the_last_key_ends_the_wait():
    keys = KeysInWork()
    keys.start()
    keys.start()
    waiting = asyncio.ensure_future(keys.wait_idle())
    await idle()
    keys.finish()
    await idle()
    assert not waiting.done()
    keys.finish()
    await idle()
    assert waiting.done()


async def test_the_last_key_ends_each_wait():
    """The end of a plan and a restart may drain one session at the same time."""
    keys = KeysInWork()
    keys.start()
    waiting = [asyncio.ensure_future(keys.wait_idle()) for _ in range(2)]
    await idle()
    keys.finish()
    await idle()
    assert all(each.done() for each in waiting)
