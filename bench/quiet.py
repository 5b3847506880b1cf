"""Requests of a cluster with idle tenants, all counted.

Runs against the embedded super cluster with the chart installed (`make up`). The audit log of the
super cluster has all requests of our components. A tenant's requests are in its API server's log,
which names every client at verbosity 3. Creates a ClusterVersion `quiet` for that and tenants
`bench-0` to `bench-4`, and deletes them. Prints each client's requests by verb and purpose, and
writes JSON to `bench/results/quiet.json`. The exit code is 1 if a request of ours has another
purpose than a renewed watch, a Lease of the component itself, a renewed token or a probe.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.programs import image_python, super_cluster
from bench.programs.super_cluster import SuperKubectl, create, root_of, tenants
from tools.testbed.cluster.handle import ClusterHandle

OURS = ("vc-manager", "vc-syncer", "vn-agent", "virtual-cluster-syncer")
_LOGGED = re.compile(
    r'"HTTP" verb="(?P<verb>[A-Z]+)" URI="(?P<uri>[^"]*)".* userAgent="(?P<agent>[^"]*)"'
)
_PURPOSES = (
    ("watch renewed", re.compile(r"^WATCH ")),
    ("own lease", re.compile(r"^(GET|PUT|PATCH|UPDATE) .*/leases(/|$)")),
    ("token renewed", re.compile(r"^(POST|CREATE) .*(/token|/tokenreviews)$")),
    ("probe", re.compile(r"^GET /(livez|readyz|healthz)")),
)


@dataclass(frozen=True, order=True)
class RequestKind:
    """One kind of request: `side` is super or a tenant's name, `what` a verb and a path."""

    side: str
    client: str
    what: str

    @property
    def purpose(self) -> str:
        """Return the purpose of the request, or `other`."""
        return next((name for name, shape in _PURPOSES if shape.match(self.what)), "other")

    @property
    def is_ours(self) -> bool:
        """Return whether one of our components sent the request."""
        return self.client.split("/")[0] in OURS


def super_requests(lines: Iterable[str]) -> Iterator[RequestKind]:
    """Yield the requests of our components from lines of the super's audit log."""
    for line in lines:
        entry = json.loads(line)
        user = entry["user"]["username"]
        if user.startswith("system:serviceaccount:vc-manager:") and _has_ended(entry):
            path = urlsplit(entry["requestURI"]).path
            yield RequestKind("super", user.rsplit(":", 1)[1], f"{entry['verb'].upper()} {path}")


def _has_ended(entry: dict[str, Any]) -> bool:
    """Return True for one line per request. A watch is logged when it begins and when it ends."""
    return str(entry["stage"]) != "ResponseStarted"


def tenant_requests(tenant: str, lines: Iterable[str]) -> Iterator[RequestKind]:
    """Yield every client's requests from lines of a tenant's API server's log."""
    for line in lines:
        if found := _LOGGED.search(line):
            path = urlsplit(found["uri"]).path
            client = found["agent"].split(" ")[0]
            yield RequestKind(tenant, client, f"{found['verb']} {path}")


def quiet_version(cluster: SuperKubectl, of: str) -> str:
    """Create the ClusterVersion with an API server that logs its clients. Returns its name."""
    found = json.loads(cluster.kubectl("get", "clusterversion", of, "-o", "json"))
    spec = found["spec"]
    spec.setdefault("extraArgs", {}).setdefault("apiServer", {})["v"] = "3"
    made = {
        "apiVersion": found["apiVersion"],
        "kind": found["kind"],
        "metadata": {"name": "quiet"},
        "spec": spec,
    }
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(made, file)
        file.flush()
        cluster.kubectl("apply", "-f", file.name)
    return "quiet"


def watch(
    cluster: SuperKubectl, names: Iterable[str], audit_log: Path, seconds: float
) -> Counter[RequestKind]:
    """Return how often each request was made in a time in which nothing is done."""
    size = audit_log.stat().st_size
    begun = time.time()
    time.sleep(seconds)
    counted: Counter[RequestKind] = Counter()
    with audit_log.open() as log:
        log.seek(size)
        counted.update(super_requests(log))
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(begun))
    for name in names:
        root = root_of(cluster, name)
        log_of = cluster.kubectl("-n", root, "logs", "apiserver-0", f"--since-time={since}")
        counted.update(tenant_requests(name, log_of.splitlines()))
    return counted


def table(results: dict[str, Any]) -> str:
    """Return the counts as lines for people: tenants together, each with its mean."""
    lines = [f"{results['seconds']:.0f} s with {results['tenants']} tenants, nothing done", ""]
    lines.append(f"{'side':8}{'client':34}{'purpose':16}{'requests':>10}{'per minute':>12}")
    lines += [
        f"{row['side']:8}{row['client'][:32]:34}{row['purpose']:16}{row['requests']:10}"
        f"{60 * row['requests'] / results['seconds']:12.1f}"
        for row in results["sums"]
    ]
    lines += ["", f"requests of ours that are none of these: {len(results['others'])}"]
    lines += [f"  {line}" for line in results["others"]]
    return "\n".join(lines)


def summary(counted: Counter[RequestKind]) -> dict[str, Any]:
    """Return the sums by side, client and purpose, and our requests without a purpose."""
    sums: Counter[tuple[str, str, str]] = Counter()
    for request, times in counted.items():
        side = request.side if request.side == "super" else "tenants"
        sums[side, request.client.split("/")[0], request.purpose] += times
    return {
        "sums": [
            {"side": side, "client": client, "purpose": purpose, "requests": times}
            for (side, client, purpose), times in sorted(sums.items())
        ],
        "others": [
            f"{times} x {request.side} {request.client}: {request.what}"
            for request, times in sorted(counted.items())
            if request.is_ours and request.purpose == "other"
        ],
    }


def measure(cluster: SuperKubectl, arguments: argparse.Namespace) -> dict[str, Any]:
    """Make the tenants, let them come to rest, and count."""
    results: dict[str, Any] = {
        "noise": super_cluster.noise(),
        **image_python.machine(),
        "tenants": arguments.tenants,
        "seconds": arguments.seconds,
    }
    audit_log = ClusterHandle("super").audit_log
    version = quiet_version(cluster, arguments.cluster_version)
    with tempfile.TemporaryDirectory() as folder, tenants(cluster) as made:
        for number in range(arguments.tenants):
            name = f"bench-{number}"
            print(f"creating tenant {name}", flush=True)
            made[name] = {}
            made[name] = create(cluster, name, version, Path(folder))
        print(f"resting for {arguments.rest:.0f} s", flush=True)
        time.sleep(arguments.rest)
        print(f"counting for {arguments.seconds:.0f} s", flush=True)
        results |= summary(watch(cluster, made, audit_log, arguments.seconds))
    cluster.kubectl("delete", "clusterversion", version)
    return results


def main() -> int:
    """Measure, print, write."""
    parser = super_cluster.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long to count")
    parser.add_argument("--rest", type=float, default=60.0, help="seconds of rest before")
    arguments = parser.parse_args()
    results = measure(SuperKubectl(arguments.super_kubeconfig, arguments.path), arguments)
    print("\n" + table(results))
    super_cluster.write("quiet", results)
    return 1 if results["others"] else 0


if __name__ == "__main__":
    sys.exit(main())
