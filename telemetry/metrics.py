"""Declarations of all metrics.

Well-known names are those of controller-runtime and client-go, so that existing dashboards work.

Hazard: labels must have a bounded set of values, never the name of an object. A label value made
from input grows without end.
"""

import weakref
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import REGISTRY, Counter, Gauge, Histogram, Metric, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

MAX_TENANT_LABELS = 20
"""Number of the largest tenants with a label of their own. Their number is bounded, so the metric
is as well.
"""
_FAST_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_LAG_BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300)

disable_created_metrics()  # type: ignore[no-untyped-call]

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
    "Events received from watches, by side and resource.",
    ["side", "resource"],
)
CACHED_OBJECTS = Gauge(
    "vc_cached_objects",
    "Objects in the caches, by side and resource.",
    ["side", "resource"],
)

LOG_LINES_DROPPED = Counter(
    "vc_log_lines_dropped", "Log lines that were dropped because the output did not accept them."
)
_QUEUE_DEPTH = Gauge("workqueue_depth", "Number of keys that wait in the queue.", ["name"])
_QUEUE_ADDS = Counter("workqueue_adds", "Number of keys added to the queue.", ["name"])
_QUEUE_RETRIES = Counter(
    "workqueue_retries", "Number of keys added again with their own delay.", ["name"]
)
_QUEUE_WAIT = Histogram(
    "workqueue_queue_duration_seconds",
    "Seconds that a key waited in the queue.",
    ["name"],
    buckets=_FAST_BUCKETS,
)
_QUEUE_WORK = Histogram(
    "workqueue_work_duration_seconds",
    "Seconds that a key was processed.",
    ["name"],
    buckets=_FAST_BUCKETS,
)
_QUEUE_UNFINISHED = Gauge(
    "workqueue_unfinished_work_seconds",
    "Sum of the ages of the keys in process, in seconds.",
    ["name"],
)
_QUEUE_LONGEST = Gauge(
    "workqueue_longest_running_processor_seconds",
    "Age of the oldest key in process, in seconds.",
    ["name"],
)
_RECONCILES = Counter(
    "controller_runtime_reconcile",
    "Reconciles by controller and result: success, requeue_after, wait, conflict, requeue, error.",
    ["controller", "result"],
)
_RECONCILE_ERRORS = Counter(
    "controller_runtime_reconcile_errors",
    "Reconciles that ended with an error, by controller.",
    ["controller"],
)
_RECONCILE_TIME = Histogram(
    "controller_runtime_reconcile_time_seconds",
    "Duration of a reconcile in seconds.",
    ["controller"],
    buckets=_FAST_BUCKETS,
)
_RECONCILERS = Gauge(
    "controller_runtime_max_concurrent_reconciles", "Number of workers.", ["controller"]
)
_RECONCILERS_BUSY = Gauge(
    "controller_runtime_active_workers", "Number of workers that process a key.", ["controller"]
)
LEADER = Gauge(
    "leader_election_master_status", "1 if this process holds the Lease, otherwise 0.", ["name"]
)
_SYNC_LAG = Histogram(
    "vc_sync_lag_seconds",
    "Seconds from an event's arrival to the answer of the resulting write, with retries and waits.",
    ["direction", "kind"],
    buckets=_LAG_BUCKETS,
)
_DRIFT_REPAIRED = Counter(
    "vc_drift_repaired",
    "Writes that undid a change by another client, by the side of the object.",
    ["side", "kind"],
)
_TARGETS = Gauge(
    "vc_targets",
    "Targets with a true condition: declared, not_connected, unreachable, losses_held.",
    ["condition"],
)
_TENANTS = Gauge(
    "vc_tenants",
    "Tenants with a true condition: declared, connected, unreachable, refusing, store_full,"
    " deletes_held, suspended, too_large. An asleep tenant counts as suspended.",
    ["condition"],
)
_CERTIFICATE_EXPIRY = Gauge(
    "vc_certificate_expiry_timestamp_seconds",
    "Time at which the first certificate of this name expires, of all tenants or of the component.",
    ["certificate"],
)
_CERTIFICATE_RENEWAL = Gauge(
    "vc_certificate_renewal_timestamp_seconds",
    "Time at which the first certificate of this name is due for renewal. CAs are not renewed.",
    ["certificate"],
)
_ROLLOUT_TENANTS = Gauge(
    "vc_rollout_tenants",
    "Tenants of a ClusterVersion by state of its rollout: current, waiting, updating, failed.",
    ["cluster_version", "state"],
)
_ROLLOUT_STOPPED = Gauge(
    "vc_rollout_stopped",
    "1 if the rollout of a ClusterVersion has stopped, because tenants exceeded their deadline.",
    ["cluster_version"],
)
_STORES = Gauge(
    "vc_stores",
    "Tenants whose etcd is in a state: observed, unreachable, degraded, filling, no_space.",
    ["condition"],
)
_STORE_USED_RATIO = Gauge(
    "vc_store_used_ratio",
    "Data in the fullest etcd of all tenants, as a share of its limit.",
)
_STORE_STEPS = Counter(
    "vc_store_steps",
    "Changes of etcd by vc-manager, by action (add, promote, remove, transfer, defragment, disarm)"
    " and result (success, error).",
    ["action", "result"],
)
_SNAPSHOTS = Counter(
    "vc_snapshots", "Snapshots of tenants' etcd, by result: success or error.", ["result"]
)
_SNAPSHOT_SCHEDULES = Gauge(
    "vc_snapshot_schedules",
    "Tenants with a schedule of snapshots: scheduled, and overdue by two intervals.",
    ["condition"],
)
LOOP_LAG = Histogram(
    "vc_event_loop_lateness_seconds",
    "Delay of a timer of the event loop in seconds, measured once a second.",
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
)
DIFFS_PARKED = Counter(
    "vc_diffs_parked",
    "Differences that are left unchanged after five equal writes, by side of the write.",
    ["side"],
)
EVENTS_DROPPED = Counter(
    "vc_events_dropped",
    "Kubernetes Events that were dropped, by reason: full or refused.",
    ["reason"],
)

RESULTS = ("success", "requeue_after", "wait", "conflict", "requeue", "error")
_FAILURE_RESULTS = frozenset({"error", "requeue"})


class QueueMetrics:
    """Metrics of one queue, with their labels looked up once."""

    def __init__(
        self,
        name: str,
        *,
        depth: Callable[[], float],
        unfinished: Callable[[], float],
        longest: Callable[[], float],
    ) -> None:
        """Read the bound methods at each scrape, as long as their queue lives."""
        self.adds = _QUEUE_ADDS.labels(name)
        self.retries = _QUEUE_RETRIES.labels(name)
        self.wait_seconds = _QUEUE_WAIT.labels(name).observe
        self.work_seconds = _QUEUE_WORK.labels(name).observe
        _QUEUE_DEPTH.labels(name).set_function(_call_while_alive(depth))
        _QUEUE_UNFINISHED.labels(name).set_function(_call_while_alive(unfinished))
        _QUEUE_LONGEST.labels(name).set_function(_call_while_alive(longest))


class ReconcileMetrics:
    """Metrics of one controller, with their labels looked up once."""

    def __init__(self, name: str, *, workers: int, busy: Callable[[], float]) -> None:
        """Create all results at the start, so that the first error is an increase."""
        self._results = {result: _RECONCILES.labels(name, result).inc for result in RESULTS}
        self._errors = _RECONCILE_ERRORS.labels(name).inc
        self._time = _RECONCILE_TIME.labels(name).observe
        _RECONCILERS_BUSY.labels(name).set_function(_call_while_alive(busy))
        _RECONCILERS.labels(name).set(workers)

    def count_reconcile(self, result: str, seconds: float) -> None:
        """Count one reconcile with one of RESULTS."""
        self._results[result]()
        self._time(seconds)
        if result in _FAILURE_RESULTS:
            self._errors()


class SyncMetrics:
    """Metrics of a syncer's writes, with their labels looked up once for each kind."""

    def __init__(self) -> None:
        """Start without kinds. Each kind is added at its first write."""
        self._lag_histograms: dict[tuple[str, str], Callable[[float], None]] = {}
        self._drift_counters: dict[tuple[str, str], Callable[[], None]] = {}

    def observe_lag(self, direction: str, kind: str, seconds: float) -> None:
        """Record the seconds from the cause of a write to its answer."""
        place = direction, kind
        observe = self._lag_histograms.get(place)
        if observe is None:
            observe = self._lag_histograms[place] = _SYNC_LAG.labels(*place).observe
        observe(seconds)

    def count_drift_repaired(self, side: str, kind: str) -> None:
        """Count a write that undid another writer's change."""
        place = side, kind
        count = self._drift_counters.get(place)
        if count is None:
            count = self._drift_counters[place] = _DRIFT_REPAIRED.labels(*place).inc
        count()


def set_store_count(condition: str, count: int) -> None:
    """Set the number of tenants whose etcd is in a state."""
    _STORES.labels(condition).set(count)


def set_store_used_ratio(ratio: float) -> None:
    """Set the used share of the fullest etcd."""
    _STORE_USED_RATIO.set(ratio)


def count_snapshot(result: str) -> None:
    """Count a snapshot that ended. `result` is `success` or `error`."""
    _SNAPSHOTS.labels(result).inc()


def set_snapshot_schedules(condition: str, count: int) -> None:
    """Set the number of tenants whose schedule of snapshots is in a state."""
    _SNAPSHOT_SCHEDULES.labels(condition).set(count)


def count_store_step(action: str, result: str) -> None:
    """Count a change of an etcd."""
    _STORE_STEPS.labels(action, result).inc()


def register_tenant_counts(counts: Mapping[str, Callable[[], float]]) -> None:
    """Read these bound methods, by condition, at each scrape, as long as their owner lives."""
    for condition, method in counts.items():
        _TENANTS.labels(condition).set_function(_call_while_alive(method))


class _TenantBytesCollector(Collector):
    """Bytes of the caches of the largest tenants, read at each scrape."""

    def __init__(self) -> None:
        self._read: Callable[[], Mapping[str, float]] | None = None

    def read_from(self, method: Callable[[], Mapping[str, float]]) -> None:
        """Read a bound method, as long as its owner lives."""
        weak = weakref.WeakMethod(method)

        def read() -> Mapping[str, float]:
            found = weak()
            return found() if found is not None else {}

        self._read = read

    def collect(self) -> Iterable[Metric]:
        """Return the metric. All tenants beyond the largest share one label."""
        family = GaugeMetricFamily(
            "vc_tenant_cache_bytes",
            "Bytes that the caches of a tenant use in the syncer, for the largest tenants.",
            labels=["tenant"],
        )
        sizes = self._read() if self._read is not None else {}
        ordered = sorted(sizes.items(), key=lambda each: (-each[1], each[0]))
        for tenant, size in ordered[:MAX_TENANT_LABELS]:
            family.add_metric([tenant], size)
        rest = ordered[MAX_TENANT_LABELS:]
        if rest:
            family.add_metric(["other"], sum(size for _, size in rest))
        return (family,)


_TENANT_BYTES = _TenantBytesCollector()
REGISTRY.register(_TENANT_BYTES)


def register_tenant_bytes(method: Callable[[], Mapping[str, float]]) -> None:
    """Read the bytes by tenant from a bound method at each scrape, as long as its owner lives."""
    _TENANT_BYTES.read_from(method)


def register_target_counts(counts: Mapping[str, Callable[[], float]]) -> None:
    """Read the methods of the targets at each scrape, like `register_tenant_counts`."""
    for condition, method in counts.items():
        _TARGETS.labels(condition).set_function(_call_while_alive(method))


def set_certificate_times(name: str, *, ends: float, renewed: float | None) -> None:
    """Set the expiry and renewal of the first certificate of a name, in Unix seconds."""
    _CERTIFICATE_EXPIRY.labels(name).set(ends)
    if renewed is not None:
        _CERTIFICATE_RENEWAL.labels(name).set(renewed)


def remove_certificate(name: str) -> None:
    """Remove the metrics of a name, because no such certificate exists."""
    for family in (_CERTIFICATE_EXPIRY, _CERTIFICATE_RENEWAL):
        family.remove_by_labels({"certificate": name})


def set_rollout(cluster_version: str, counts: Mapping[str, int], *, is_stopped: bool) -> None:
    """Set the tenants of a ClusterVersion by state, and whether its rollout has stopped."""
    for state, count in counts.items():
        _ROLLOUT_TENANTS.labels(cluster_version, state).set(count)
    _ROLLOUT_STOPPED.labels(cluster_version).set(is_stopped)


def remove_rollout(cluster_version: str) -> None:
    """Remove the metrics of a ClusterVersion that no longer exists."""
    for family in (_ROLLOUT_TENANTS, _ROLLOUT_STOPPED):
        family.remove_by_labels({"cluster_version": cluster_version})


def _call_while_alive(method: Callable[[], float]) -> Callable[[], float]:
    weak = weakref.WeakMethod(method)

    def read_value() -> float:
        found = weak()
        return found() if found is not None else 0.0

    return read_value
