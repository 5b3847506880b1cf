"""Every metric has a declared home, a sane name and bounded labels."""

from __future__ import annotations

import gc

from prometheus_client import REGISTRY
from prometheus_client.metrics import MetricWrapperBase

from telemetry import metrics

PREFIXES = ("vc_", "workqueue_", "controller_runtime_", "rest_client_", "leader_election_")
LABELS = {
    "name", "controller", "result", "method", "code", "side", "resource", "reason", "kind",
    "component", "direction", "tenant", "condition", "phase", "route", "authority", "le",
}  # fmt: skip


def _ours():
    return [
        family
        for family in REGISTRY.collect()
        if not family.name.startswith(("python_", "process_"))
    ]


def test_names_are_ours_or_well_known():
    assert [family.name for family in _ours() if not family.name.startswith(PREFIXES)] == []


def test_every_metric_says_what_it_counts():
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


class Queue:
    """Stands in for a queue with something to report."""

    def unfinished(self):
        return 7.0

    def __len__(self):
        return 3


def test_a_queue_is_looked_at_while_it_lives():
    queue = Queue()
    metrics.QueueMetrics("gone", depth=queue.__len__, unfinished=queue.unfinished)
    labels = {"name": "gone"}
    assert REGISTRY.get_sample_value("workqueue_unfinished_work_seconds", labels) == 7.0
    assert REGISTRY.get_sample_value("workqueue_depth", labels) == 3.0
    del queue
    gc.collect()
    assert REGISTRY.get_sample_value("workqueue_unfinished_work_seconds", labels) == 0.0
