"""Time of each page of `kubectl vc ui` with many tenants and pods in a real API server.

    python -m bench.pages --tenants 100 --pods 10000 --repeats 50

Creates VirtualClusters with their tables of certificates, copies of pods in one super namespace for
each tenant, and Events. One tenant has a kubeconfig. Fetches each kind of page `--repeats` times,
one after the other. Prints the median and the 95th percentile in ms, and writes JSON to
`bench/results/pages.json`. Beside the pages it measures one list of 25 pods by the same client.
`--profile` prints where the processor time of each page goes.
"""

import argparse
import asyncio
import cProfile
import pstats
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench.pages import stage
from bench.programs import image_python, super_cluster
from bench.reports.statistics import quantile
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.ui.object_kinds import KINDS
from kubectl_vc.ui.page_facts import OBJECTS_PER_PAGE
from kubectl_vc.ui.urls import Urls
from kubeio.api.client import Client
from tenancy.ownership import Tenant
from tenancy.resources import PODS
from tests.support.controlplane import LocalControlPlane
from tests.support.kubectl_vc.page_client import PageClient, serving

GOAL_MS = 300.0
"""Goal for the 95th percentile of a page in ms."""
REPORT = "pages"
BESIDE = f"one list of {OBJECTS_PER_PAGE} pods"
_NEXT = 'id="next"'
_PROFILE_ROWS = 25


def list_pages(urls: Urls, tenant: Tenant) -> dict[str, str]:
    """Return the URL of each kind of page by its name."""
    place, space = (tenant.namespace, tenant.name), stage.SPACE
    kinds = {
        f"namespace, {key}": urls.build_namespace(*place, space, kind=key)
        for key in KINDS
        if key != PODS.plural
    }
    return {
        "tenants": urls.build_tenants(),
        "tenants, live part": urls.build_tenants(part="live"),
        "tenant": urls.build_tenant(*place),
        "tenant, live part": urls.build_tenant(*place, part="live"),
        "namespace, pods": urls.build_namespace(*place, space),
        "namespace, pods, live part": urls.build_namespace(*place, space, part="live"),
        "namespace, pods, by copies": urls.build_namespace(*place, space, by="copies"),
        **kinds,
        "pod": urls.build_pod(*place, space, "p-00000"),
        "pod, live part": urls.build_pod(*place, space, "p-00000", part="live"),
    }


async def add_second_pages(pages: PageClient, paths: dict[str, str]) -> dict[str, str]:
    """Return the URLs with those of the second pages of lists, as the first pages link them."""
    found = dict(paths)
    for name in ("tenants", "namespace, pods", "namespace, pods, by copies"):
        page = await pages.fetch(paths[name])
        if _NEXT in page.text:  # a small installation has one page
            found[f"{name}, second page"] = page.link("next")
    return found


async def measure(repeats: int, fetch: Callable[[], Awaitable[object]]) -> dict[str, float]:
    """Return the times of repeated calls in ms."""
    await fetch()  # the first one opens connections and compiles the template
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        await fetch()
        times.append((time.perf_counter() - start) * 1000)
    return {
        "p50_ms": round(quantile(times, 0.5), 1),
        "p95_ms": round(quantile(times, 0.95), 1),
        "worst_ms": round(max(times), 1),
    }


async def run(asked: argparse.Namespace, folder: Path) -> dict[str, dict[str, float]]:
    """Return the times of all pages by name."""
    plane = LocalControlPlane(folder / "plane", name="super")
    try:
        await plane.start()
        first = await stage.furnish(plane, asked.tenants, asked.pods)
        path = folder / "kubeconfig"
        path.write_bytes(plane.kubeconfig())
        async with (
            serving(ConfigFlags(kubeconfig=str(path))) as pages,
            Client(plane.endpoint) as client,
        ):
            paths = await add_second_pages(pages, list_pages(pages.urls, first))

            async def fetch(path: str) -> None:
                page = await pages.fetch(path)
                assert page.status == 200, page.text

            found: dict[str, dict[str, float]] = {}
            for name, path_of_page in paths.items():
                profile = cProfile.Profile(builtins=False) if asked.profile else None
                if profile is not None:
                    profile.enable()
                found[name] = await measure(asked.repeats, partial(fetch, path_of_page))
                if profile is not None:
                    profile.disable()
                    print(f"== {name}")
                    pstats.Stats(profile).sort_stats("tottime").print_stats(_PROFILE_ROWS)
            found[BESIDE] = await measure(
                asked.repeats,
                lambda: client.list(PODS, namespace=stage.SPACE, limit=OBJECTS_PER_PAGE),
            )
            return found
    finally:
        await plane.stop()


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tenants", type=int, default=100)
    parser.add_argument("--pods", type=int, default=10_000, help="in the super cluster")
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--profile", action="store_true", help="print a profile of each page")
    return parser.parse_args()


def main() -> int:
    """Measure, print, write. Return 1 if a page misses the goal."""
    asked = arguments()
    about: dict[str, Any] = {
        "noise": super_cluster.noise(),
        **image_python.machine(),
        "python": image_python.here(),
    }
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        found = asyncio.run(run(asked, Path(folder)))
    for name, times in found.items():
        print(f"{name:42} p50 {times['p50_ms']:7.1f} ms  p95 {times['p95_ms']:7.1f} ms")
    if not asked.profile:
        results = {**about, "asked": vars(asked), "goal_ms": GOAL_MS, "runs": {REPORT: [found]}}
        super_cluster.write(REPORT, results)
    return 1 if any(times["p95_ms"] > GOAL_MS for times in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
