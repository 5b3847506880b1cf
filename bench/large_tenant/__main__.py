"""One tenant with gigabytes of NetworkPolicies beside a neighbour, with real API servers.

    python -m bench.large_tenant
    python -m bench.large_tenant --endless pages
    python -m bench.large_tenant --endless watch

Starts a super cluster, three tenants and the syncer as a process of its own. Measures the time from
the create of a neighbour's pod until the neighbour reads it as Running. There are three
measurements. In the first one the other tenants are idle. In the second one a suspended tenant
gets the policies, which costs its API server and not the syncer. In the third one a synced tenant
gets them. With `--endless pages` or `watch`, nothing is stored, and there is no second measurement.
The API server of the third tenant sends pages or watch events without end. `verdict.py` has what
must be kept: ratio, memory limit of the syncer, message to the tenant, and its recovery.
Prints the figures, and writes them to `bench/results/large-tenant.json`, `large-tenant-pages.json`
or `large-tenant-watch.json`. Exits with 1 and a sentence for each thing that was not kept.
"""

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.large_tenant.verdict import REPORTS, compute_ratios, find_problems, get_before
from bench.programs import image_python, super_cluster
from kubeio import Object, errors
from tenancy import wellknown
from tenancy.resources import NETWORK_POLICIES, PODS, VIRTUAL_CLUSTERS
from tests.integration.syncer.control_planes import begin_super, own_world, super_plane_of
from tests.integration.syncer.hostile_servers import EndlessScript, hostile
from tests.integration.syncer.objects import pod, running_status
from tests.integration.syncer.rights import grant_lease
from tests.integration.syncer.world import SYNCER, SyncerWorld
from tests.support.processes import ProgramProcess, free_port

WRITERS = 2
VALUE_CHARACTERS = 60
POD_PAUSE_SECONDS = 0.05
EMPTY_ATTEMPTS = 20
POLL_SECONDS = 0.005
_BEGIN_SECONDS = 120.0
_CALM_SECONDS = 15.0
"""Time in seconds for API servers and etcd to settle between two measurements."""


def large_policy(number: int, size: int) -> Object:
    """Return a NetworkPolicy of `size` bytes."""
    count = size // (VALUE_CHARACTERS + 3)
    values = [f"{each:0{VALUE_CHARACTERS}d}" for each in range(count)]
    expression = {"key": "app", "operator": "In", "values": values}
    return {
        "apiVersion": NETWORK_POLICIES.api_version,
        "kind": "NetworkPolicy",
        "metadata": {"name": f"p{number}"},
        "spec": {"podSelector": {"matchExpressions": [expression]}},
    }


def read_memory(pid: int) -> dict[str, int]:
    """Return the present and the highest resident memory of a process in MiB."""
    text = Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {
        name: int(fields[key].split()[0]) // 1024
        for name, key in (("resident_mib", "VmRSS"), ("peak_mib", "VmHWM"))
    }


class Neighbour:
    """A tenant that creates pods one after the other, and its kubelet."""

    def __init__(self, world: SyncerWorld, node: str) -> None:
        self._world = world
        self._node = node
        self._number = 0

    async def measure(self, count: int) -> list[float]:
        """Return the seconds until each of `count` pods runs."""
        found = []
        for _ in range(count):
            found.append(await self._run_pod())
            await asyncio.sleep(POD_PAUSE_SECONDS)
        return found

    async def _run_pod(self) -> float:
        world, name = self._world, f"n{self._number}"
        self._number += 1
        began = time.monotonic()
        await world.tenant_client.create(PODS, pod(name), namespace="default")
        await _poll(lambda: world.has_twin(PODS, "default", name))
        await world.schedule("default", name, self._node)
        await world.report("default", name, **running_status(name))
        await _poll(lambda: self._is_running(name))
        took = time.monotonic() - began
        await world.tenant_client.delete(PODS, name, namespace="default", grace_seconds=0)
        return took

    async def _is_running(self, name: str) -> bool:
        found = await self._world.tenant_client.get(PODS, name, namespace="default")
        return bool(found["status"].get("phase") == "Running")


async def _poll(is_done: Callable[[], Awaitable[bool]]) -> None:
    while True:
        if await is_done():
            return
        await asyncio.sleep(POLL_SECONDS)


async def fill(world: SyncerWorld, count: int, size: int) -> int:
    """Create the policies. Returns the number that the API server refused."""
    numbers, refused = iter(range(count)), 0

    async def write() -> None:
        nonlocal refused
        for number in numbers:
            try:
                await world.tenant_client.create(
                    NETWORK_POLICIES, large_policy(number, size), namespace="default", deadline=60
                )
            except errors.KubeError as problem:
                refused += 1
                sys.stderr.write(f"{problem}\n"[:300])

    await asyncio.gather(*(write() for _ in range(WRITERS)))
    return refused


async def empty(world: SyncerWorld) -> None:
    """Delete the policies."""
    path = NETWORK_POLICIES.build_path("default")
    for _ in range(EMPTY_ATTEMPTS):
        try:
            await world.tenant_client.raw("DELETE", path, deadline=600)
        except errors.ServerTimeout:
            continue  # the API server stops after a minute, and has deleted a part
        except errors.ResponseTooLarge:
            return  # the answer has the deleted objects, so all are deleted
        return


async def suspend(world: SyncerWorld, value: bool) -> None:
    """Suspend or resume a tenant."""
    patch = {"spec": {"suspend": value}}
    name, namespace = world.tenant.name, world.tenant.namespace
    await world.super_client.patch(VIRTUAL_CLUSTERS, name, patch, namespace=namespace)


async def wait_reason(world: SyncerWorld, reason: str, seconds: float) -> Object | None:
    """Return the condition Synced once it has a reason, or None after `seconds`."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        found: Object | None = await world.condition(wellknown.SYNCED)
        if found is not None and found["reason"] == reason:
            return found
        await asyncio.sleep(0.2)
    return None


def quantiles(seconds: list[float]) -> dict[str, float]:
    """Return median and 99th percentile in milliseconds."""
    ordered = sorted(seconds)
    return {
        "count": len(ordered),
        "p50_ms": round(1000 * statistics.median(ordered), 1),
        "p99_ms": round(1000 * ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))], 1),
    }


class PolicySource:
    """The policies of one tenant: stored in its etcd, or sent without end by its API server."""

    def __init__(self, world: SyncerWorld, options: argparse.Namespace) -> None:
        self._world = world
        self._options = options
        self.script = EndlessScript(options.endless or "pages", options.policy_bytes)
        self.script.hostility = None

    async def begin(self) -> int:
        """Begin, and return the number of policies that were refused."""
        if not self._options.endless:
            return await fill(self._world, self._options.policies, self._options.policy_bytes)
        self.script.hostility = self._options.endless
        self.script.cut()
        return 0

    async def end(self) -> None:
        """Remove the policies."""
        if self._options.endless:
            self.script.hostility = None
        else:
            await empty(self._world)


async def measure_during(
    neighbour: Neighbour, source: PolicySource, pods: int
) -> tuple[dict[str, float], int]:
    """Measure the neighbour while a tenant gets its policies."""
    filling = asyncio.ensure_future(source.begin())
    found: list[float] = []
    while not filling.done() or len(found) < pods:
        found += await neighbour.measure(5)
    return quantiles(found), await filling


async def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run all measurements."""
    plane = super_plane_of(folder / "super")
    await begin_super(plane)
    result: dict[str, Any] = {}
    try:
        async with (
            own_world(plane, folder / "large") as large,
            own_world(plane, folder / "control") as control,
            own_world(plane, folder / "beside") as beside,
            contextlib.AsyncExitStack() as stack,
        ):
            await grant_lease(beside)
            source = PolicySource(large, options)
            if options.endless:
                await stack.enter_async_context(hostile(large, source.script))
            kubeconfig = folder / "super.kubeconfig"
            kubeconfig.write_bytes(plane.kubeconfig(SYNCER, group=""))
            kubeconfig.chmod(0o600)
            arguments = (
                *("--kubeconfig", str(kubeconfig), "--port", str(free_port())),
                *("--memory-limit-mib", str(options.memory_limit_mib)),
                *("--tenant-pause-seconds", str(options.pause_seconds)),
            )
            program = [sys.executable, "-m", "syncer", *arguments]
            process = ProgramProcess(program, folder / "syncer.log")
            try:
                result = await _measure(options, source, (large, control, beside), process)
            except BaseException:
                sys.stderr.write(process.tail())
                raise
            finally:
                await process.stop()
    finally:
        await plane.stop()
    return result


async def _measure(
    options: argparse.Namespace,
    source: PolicySource,
    worlds: tuple[SyncerWorld, SyncerWorld, SyncerWorld],
    process: ProgramProcess,
) -> dict[str, Any]:
    large, control, beside = worlds
    for world in (large, beside):
        if await wait_reason(world, "Engaged", _BEGIN_SECONDS) is None:
            raise SystemExit("a tenant was not connected")
    neighbour = Neighbour(beside, await beside.super_node())
    await neighbour.measure(10)
    result: dict[str, Any] = {"idle": quantiles(await neighbour.measure(options.pods))}
    result["memory_idle"] = read_memory(process.pid)
    _show_progress(result)
    if not options.no_control and not options.endless:
        await suspend(control, True)
        await wait_reason(control, "Suspended", 30)
        stored = PolicySource(control, options)
        result["suspended"], _ = await measure_during(neighbour, stored, options.pods)
        await asyncio.sleep(_CALM_SECONDS)
        result["memory_before"] = read_memory(process.pid)
        _show_progress(result)
    during = await measure_during(neighbour, source, options.pods)
    result["large"], result["policies_refused"] = during
    told = await wait_reason(large, "TooLarge", 60)
    result["told"] = told["message"] if told is not None else None
    result["memory_told"] = read_memory(process.pid)
    _show_progress(result)
    again = time.monotonic() + options.pause_seconds * 2
    found: list[float] = []
    while time.monotonic() < again:  # the next attempt reads all of it again
        found += await neighbour.measure(5)
    result["attempts"] = quantiles(found)
    result["memory_after"] = read_memory(process.pid)
    began = time.monotonic()
    await source.end()
    recovered = await wait_reason(large, "Engaged", 10 * options.pause_seconds + 60)
    result["recovered_seconds"] = round(time.monotonic() - began, 1) if recovered else None
    result["has_ended"] = process.has_ended
    result["memory_limit_mib"] = options.memory_limit_mib
    result["before"] = get_before(result)
    result["ratios"] = compute_ratios(result)
    return result


def _show_progress(result: dict[str, Any]) -> None:
    """Print the results so far, because a run takes minutes."""
    sys.stderr.write(f"{json.dumps(result)}\n")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="bench.large_tenant",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--policies", type=int, default=1500)
    parser.add_argument("--policy-bytes", type=int, default=1_000_000)
    parser.add_argument("--memory-limit-mib", type=int, default=512)
    parser.add_argument("--pods", type=int, default=200)
    parser.add_argument("--pause-seconds", type=float, default=30.0)
    parser.add_argument("--endless", choices=("pages", "watch"), help="Sent, and not stored")
    parser.add_argument("--no-control", action="store_true", help="Leave the suspended run out")
    return parser.parse_args()


def main() -> int:
    """Measure, print, write. Return 1 with sentences if the run does not keep what it must."""
    options = parse_arguments()
    about = {
        "noise": super_cluster.noise(),
        **image_python.machine(),
        "python": image_python.here(),
    }
    with tempfile.TemporaryDirectory(prefix="large-tenant-") as folder:
        result = asyncio.run(run(options, Path(folder)))
    sys.stdout.write(f"{json.dumps(result, indent=2)}\n")
    problems = find_problems(result)
    results = {**about, "asked": vars(options), "problems": problems, "runs": {"large": [result]}}
    super_cluster.write(REPORTS[options.endless], results)
    sys.stderr.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
