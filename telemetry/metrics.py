"""Every metric of the product, declared once.

Well-known names are controller-runtime's and client-go's, so that existing dashboards work. Labels
are bounded: never the name of an object. Hazard: a label value made from input grows without end.
"""

import weakref
from collections.abc import Callable

from prometheus_client import Counter, Gauge, Histogram

_FAST = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

REQUESTS = Counter(
    "rest_client_requests",
    "Requests to API servers, by method and status code.",
    ["method", "code"],
)

WATCH_RESTARTS = Counter(
    "vc_watch_restarts",
    "Watches that broke or were ended early, by side and resource.",
    ["side", "resource"],
)
WATCH_EVENTS = Counter(
    "vc_watch_events",
    "Events taken from watches, by side and resource.",
    ["side", "resource"],
)
CACHED_OBJECTS = Gauge(
    "vc_cached_objects",
    "Objects in the caches, by side and resource.",
    ["side", "resource"],
)

_QUEUE_DEPTH = Gauge("workqueue_depth", "Keys that wait for a turn.", ["name"])
_QUEUE_ADDS = Counter("workqueue_adds", "Keys that began to wait.", ["name"])
_QUEUE_RETRIES = Counter("workqueue_retries", "Keys put back with their own delay.", ["name"])
_QUEUE_WAIT = Histogram(
    "workqueue_queue_duration_seconds", "From the wish to the work.", ["name"], buckets=_FAST
)
_QUEUE_WORK = Histogram(
    "workqueue_work_duration_seconds", "How long a key was worked on.", ["name"], buckets=_FAST
)
_QUEUE_UNFINISHED = Gauge(
    "workqueue_unfinished_work_seconds", "Age of the keys in work, added up.", ["name"]
)
RECONCILES = Counter(
    "controller_runtime_reconcile",
    "Reconciles by controller and result: success, requeue_after, wait, conflict, requeue, error.",
    ["controller", "result"],
)
LEADER = Gauge("leader_election_master_status", "1 while this process holds the Lease.", ["name"])
EVENTS_DROPPED = Counter(
    "vc_events_dropped", "Kubernetes Events given up, by reason: full or refused.", ["reason"]
)


class QueueMetrics:
    """The families of one queue, looked up once."""

    def __init__(
        self, name: str, *, depth: Callable[[], float], unfinished: Callable[[], float]
    ) -> None:
        """Read the bound methods at each scrape, for as long as their queue lives."""
        self.adds = _QUEUE_ADDS.labels(name)
        self.retries = _QUEUE_RETRIES.labels(name)
        self.waited = _QUEUE_WAIT.labels(name).observe
        self.worked = _QUEUE_WORK.labels(name).observe
        _QUEUE_DEPTH.labels(name).set_function(_while_alive(depth))
        _QUEUE_UNFINISHED.labels(name).set_function(_while_alive(unfinished))


def _while_alive(method: Callable[[], float]) -> Callable[[], float]:
    weak = weakref.WeakMethod(method)

    def value() -> float:
        found = weak()
        return found() if found is not None else 0.0

    return value
