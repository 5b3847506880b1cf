"""The model of an API server beside a real one: the same programs, the same answers."""

from __future__ import annotations

import random
import secrets

import pytest

from kubeio.http import tls_contexts
from kubeio.http.connection_pool import ConnectionPool
from kubeio.http.transport_protocol import HttpRequest
from tests.integration.model.programs import KINDS, SPACES, program
from tests.integration.model.programs import fresh as fresh_object
from tests.integration.model.runner import ProgramRunner
from tests.support.controlplane import LocalControlPlane
from tests.support.memapi.api import MemoryApi
from tests.support.memapi.cluster import MemoryCluster
from tests.support.memapi.clusters import fresh
from tests.support.memapi.direct import DirectTransport, RequestFate, WatchTap

PROGRAMS = 30
MANY = 300
LENGTH = 60
FOUND = (3372089470,)
"""Programs that the model answered otherwise once: a pod deleted again with other finalizers."""
END = "zz-end"


class FaultlessNetwork:
    """A network without faults."""

    def fate(self, _: HttpRequest) -> RequestFate:
        """Let everything through."""
        return RequestFate()

    def opened(self, _: WatchTap) -> None:
        """Let watches be."""


async def ran(runner: ProgramRunner, seed: int) -> list[object]:
    """Run the program of a seed. Returns its answers, and then its watches, in normal form."""
    begun = await runner.begin()
    for step in program(seed, LENGTH):
        await runner.run(step)
    watches = []
    for space in SPACES:
        for resource in KINDS:
            body = fresh_object(random.Random(0), resource, END)  # noqa: S311 - no secret
            body["metadata"]["labels"] = {"x": "1"}
            target = resource.build_path(runner.prefix + space)
            status, _ = await runner.ask("POST", target, body)
            if status == 201:  # else it is on its way out, and the marker would never come
                for selector in ("", "x%3D1"):
                    found = await runner.watched(resource, begun, space, END, selector)
                    watches.append(found)
    return runner.normal([*runner.answers, *watches])


async def compared(plane: LocalControlPlane, seed: int) -> None:
    """Run one program on both servers, and compare answer by answer."""
    prefix = f"m{secrets.token_hex(3)}-"
    endpoint = plane.endpoint
    pool = ConnectionPool(
        endpoint.server,
        context=tls_contexts.create_context(endpoint),
        server_name=None,
        connections=2,
        fence=None,
    )
    chance = random.Random(seed)  # noqa: S311 - the same at each run
    cluster: MemoryCluster = fresh("model", "10.96.0.0/16", accounts=False, chance=chance)
    try:
        real = ProgramRunner(pool, prefix)
        expected = await ran(real, seed)
    finally:
        await pool.close()
    model = ProgramRunner(DirectTransport(MemoryApi(cluster), FaultlessNetwork()), prefix)
    found = await ran(model, seed)
    for number, (one, other) in enumerate(zip(expected, found, strict=False)):
        assert one == other, f"seed {seed}, answer {number}"
    assert len(expected) == len(found)


@pytest.mark.parametrize("seed", [*range(PROGRAMS), *FOUND])
async def test_both_answer_the_same(super_plane: LocalControlPlane, seed: int) -> None:
    await compared(super_plane, seed)


@pytest.mark.slow
async def test_both_answer_the_same_at_length(super_plane: LocalControlPlane) -> None:
    for seed in range(PROGRAMS, PROGRAMS + MANY):
        await compared(super_plane, seed)
