"""Every metric has a declared home, a sane name and bounded labels."""

from __future__ import annotations

import asyncio
import gc
import time

from prometheus_client import REGISTRY
from prometheus_client.metrics import MetricWrapperBase

from telemetry import loop_lag, metrics

PREFIXES = ("vc_", "workqueue_", "controller_runtime_", "rest_client_", "leader_election_")
LABELS = {
    "name", "controller", "result", "method", "code", "side", "resource", "reason", "kind",
    "component", "direction", "tenant", "condition", "phase", "route", "authority", "le",
    "certificate", "action",
    "cluster_version", "state",  # series end with their ClusterVersion
}  # fmt: skip


def _ours():
    return [
        family
        for family in REGISTRY.collect()
        if not family.name.startswith(("python_", "process_"))
    ]


def test_names_are_ours_or_well_known():
    assert [family.name for family in _ours() if not family.name.startswith(PREFIXES)] == []


def test_every_metric_reports_what_it_counts():
    assert [family.name for family in _ours() if not family.documentation.endswith(".")] == []


def test_labels_are_bounded_by_kind():
    declared = [value for value in vars(metrics).values() if isinstance(value, MetricWrapperBase)]
    assert len(declared) > 5
    unknown = {
        (family, label)
        for family in declared
        for label in family._labelnames
        if label not in LABELS
    }
    assert unknown == set()


class FakeQueue:
    """Stands in for a queue with something to report."""

    def unfinished(self):
        return 7.0

    def longest(self):
        return 5.0

    def __len__(self):
        return 3


def test_a_queue_is_looked_at_while_it_lives():
    queue = FakeQueue()
    metrics.QueueMetrics(
        "gone", depth=queue.__len__, unfinished=queue.unfinished, longest=queue.longest
    )
    labels = {"name": "gone"}
    assert REGISTRY.get_sample_value("workqueue_unfinished_work_seconds", labels) == 7.0
    assert REGISTRY.get_sample_value("workqueue_depth", labels) == 3.0
    assert REGISTRY.get_sample_value("workqueue_longest_running_processor_seconds", labels) == 5.0
    del queue
    gc.collect()
    assert REGISTRY.get_sample_value("workqueue_unfinished_work_seconds", labels) == 0.0


CONTROLLER_RUNTIME = {
    "controller_runtime_reconcile_total": ["controller", "result"],
    "controller_runtime_reconcile_errors_total": ["controller"],
    "controller_runtime_reconcile_time_seconds_bucket": ["controller", "le"],
    "controller_runtime_max_concurrent_reconciles": ["controller"],
    "controller_runtime_active_workers": ["controller"],
    "workqueue_depth": ["name"],
    "workqueue_adds_total": ["name"],
    "workqueue_queue_duration_seconds_bucket": ["le", "name"],
    "workqueue_work_duration_seconds_bucket": ["le", "name"],
    "workqueue_unfinished_work_seconds": ["name"],
    "workqueue_longest_running_processor_seconds": ["name"],
    "workqueue_retries_total": ["name"],
}
"""What dashboards of other controllers ask for: sample names and labels of controller-runtime."""


def test_the_usual_families_have_their_usual_names():
    queue = FakeQueue()
    metrics.QueueMetrics(
        "usual", depth=queue.__len__, unfinished=queue.unfinished, longest=queue.longest
    )
    metrics.ReconcileMetrics("usual", workers=2, busy=queue.__len__)
    found = {
        sample.name: sorted(sample.labels)
        for family in REGISTRY.collect()
        for sample in family.samples
        if "usual" in sample.labels.values()
    }
    assert {name: found.get(name) for name in CONTROLLER_RUNTIME} == CONTROLLER_RUNTIME
    assert not [name for name in found if name.endswith("_created")]


def test_a_failed_reconcile_is_an_error_and_one_that_waits_is_none():
    queue = FakeQueue()
    controller = metrics.ReconcileMetrics("judged", workers=1, busy=queue.__len__)
    for result in metrics.RESULTS:
        controller.count_reconcile(result, 0.01)
    labels = {"controller": "judged"}
    assert REGISTRY.get_sample_value("controller_runtime_reconcile_errors_total", labels) == 2.0
    count = REGISTRY.get_sample_value("controller_runtime_reconcile_time_seconds_count", labels)
    assert count == len(metrics.RESULTS)


async def test_a_loop_that_is_held_up_is_late(monkeypatch):
    seen = []
    rang = asyncio.Event()

    def observe(seconds):
        seen.append(seconds)
        rang.set()

    monkeypatch.setattr(metrics.LOOP_LAG, "observe", observe)
    async with loop_lag.measure_lag(0.01):
        await asyncio.sleep(0.005)
        time.sleep(0.2)  # noqa: ASYNC251 - this is the trouble
        await rang.wait()
    assert seen[0] > 0.1
