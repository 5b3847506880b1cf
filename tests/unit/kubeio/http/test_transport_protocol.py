"""Answers byte by byte: what each wire makes of them, and that it is the same."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubeio import errors
from kubeio.http import transport_protocol
from tests.support.kubeio.scripted_servers import (
    ASKED,
    CHUNKED,
    NOTHING,
    TO_THE_END,
    TOLD,
    WHOLE,
    ScriptedServer,
    served,
    whole,
)

CONTINUED = b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE


async def outcome(script: ScriptedServer, *, lean: bool, streams: bool) -> object:
    """The result of one request: the answer, or the kind of the problem."""
    async with served(script, lean=lean) as made:
        try:
            if not streams:
                return await made.exchange(ASKED, timeout_seconds=5)
            stream = await made.stream(ASKED, connect=5, idle_timeout=5)
            try:
                content = await whole(stream)
            finally:
                stream.abort()
        except errors.KubeError as problem:
            return type(problem)
        return transport_protocol.HttpResponse(stream.status, stream.retry_after, content)


@pytest.mark.parametrize("streams", [False, True])
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    answer=st.sampled_from([WHOLE, CHUNKED, CONTINUED, TOLD, TO_THE_END, NOTHING]),
    cuts=st.sets(st.integers(1, 80), max_size=8),
    length=st.integers(0, 120),
)
def test_both_wires_make_the_same_of_an_answer(streams, answer, cuts, length):
    """Whole or ended somewhere in the middle, and in whatever pieces it comes."""

    async def both():
        return [
            await outcome(
                ScriptedServer(answer[:length], cuts=tuple(cuts), ends=True),
                lean=lean,
                streams=streams,
            )
            for lean in (True, False)
        ]

    lean, other = asyncio.run(both())
    assert lean == other
