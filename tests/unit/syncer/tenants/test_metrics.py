"""Metrics of late writes and of drift, for events and writes in every order."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import pytest
from prometheus_client import REGISTRY

from syncer.model.keys import Key
from syncer.safety.expectations import ClusterSide, Expectations
from syncer.tenants.connection import STORE_FULL
from syncer.tenants.metrics import TargetCounts, TenantCounts, TenantMetrics
from tests.unit.syncer.safety.test_expectations import entry

KEY = Key("t", "home", "ConfigMap", "n", "drifting")


def _drift(side="super"):
    labels = {"side": side, "kind": "ConfigMap"}
    return REGISTRY.get_sample_value("vc_drift_repaired_total", labels) or 0.0


def _lags(direction):
    labels = {"direction": direction, "kind": "ConfigMap"}
    return REGISTRY.get_sample_value("vc_sync_lag_seconds_count", labels) or 0.0


@pytest.fixture
def figures():
    return TenantMetrics(lambda _: 0.5)


@pytest.fixture
def expectations(figures):
    return Expectations(on_write=figures.observe_write)


def test_each_write_of_a_key_in_work_is_reported_by_its_direction(expectations):
    down, up = _lags("down"), _lags("up")
    expectations.expect_update(ClusterSide.SUPER, KEY, "5")
    expectations.expect_delete(ClusterSide.SUPER, KEY, entry(5))
    expectations.expect_any_update(ClusterSide.TENANT, KEY, entry(5))
    assert (_lags("down") - down, _lags("up") - up) == (2, 1)


def test_a_write_of_nobodys_key_is_not_reported():
    expectations = Expectations(on_write=TenantMetrics(lambda _: None).observe_write)
    before = _lags("down")
    expectations.expect_update(ClusterSide.SUPER, KEY, "5")
    assert _lags("down") == before


def test_a_write_after_a_foreign_write_is_drift(figures, expectations):
    before = _drift()
    figures.suspect_drift(ClusterSide.SUPER, KEY, 7)
    expectations.expect_update(ClusterSide.SUPER, KEY, "8")
    expectations.expect_update(ClusterSide.SUPER, KEY, "9")  # once
    assert _drift() == before + 1


def test_an_echo_before_the_answer_is_none(figures, expectations):
    before = _drift()
    assert not expectations.observe_event(ClusterSide.SUPER, KEY, entry(8))
    figures.suspect_drift(ClusterSide.SUPER, KEY, 8)
    expectations.expect_update(ClusterSide.SUPER, KEY, "8")
    assert _drift() == before


def test_a_delete_repairs_nothing_and_what_was_found_in_step_is_forgotten(figures, expectations):
    before = _drift()
    figures.suspect_drift(ClusterSide.SUPER, KEY, 0)
    expectations.expect_delete(ClusterSide.SUPER, KEY, entry(8))
    expectations.expect_update(ClusterSide.SUPER, KEY, "9")
    figures.suspect_drift(ClusterSide.SUPER, KEY, 10)
    figures.suspect_drift(ClusterSide.TENANT, KEY, 10)
    figures.clear_suspicion(KEY)
    expectations.expect_update(ClusterSide.SUPER, KEY, "11")
    expectations.expect_update(ClusterSide.TENANT, KEY, "11")
    assert (_drift(), _drift("tenant")) == (before, 0.0)


def test_an_expectation_knows_its_own(expectations):
    expectations.expect_update(ClusterSide.SUPER, KEY, "8")
    assert expectations.observe_event(ClusterSide.SUPER, KEY, entry(7))
    assert expectations.observe_event(ClusterSide.SUPER, KEY, entry(8))
    assert not expectations.observe_event(ClusterSide.SUPER, KEY, entry(9))
    expectations.expect_update(ClusterSide.SUPER, KEY, "10")
    assert not expectations.observe_event(ClusterSide.SUPER, KEY, entry(11))
    expectations.expect_update(ClusterSide.SUPER, KEY, "12")
    assert not expectations.observe_event(ClusterSide.SUPER, KEY, None)
    expectations.expect_delete(ClusterSide.SUPER, KEY, entry(12))
    assert expectations.observe_event(ClusterSide.SUPER, KEY, None)


class CountedConnection:
    def __init__(self, *, ready=True, problem="", refusing="", held=False):
        self.is_ready, self.problem, self.refused_writes_problem = ready, problem, refusing
        self.holds_deletes = held
        self.is_store_full = STORE_FULL in refusing


def test_tenants_are_counted_by_what_is_true_of_them():
    links = {
        "a": CountedConnection(),
        "b": CountedConnection(problem="silent"),
        "c": CountedConnection(refusing="pods/status"),
        "d": CountedConnection(held=True),
        "e": CountedConnection(ready=False),
        "f": CountedConnection(refusing="etcdserver: mvcc: database space exceeded"),
    }
    counts = TenantCounts(links, lambda: 7, count_suspended=lambda: 2, count_too_large=lambda: 3)
    found = {
        condition: REGISTRY.get_sample_value("vc_tenants", {"condition": condition})
        for condition in (
            "declared",
            "connected",
            "unreachable",
            "refusing",
            "store_full",
            "deletes_held",
            "suspended",
            "too_large",
        )
    }
    assert counts
    assert found == {
        "declared": 7, "connected": 5, "unreachable": 1, "refusing": 2, "store_full": 1,
        "deletes_held": 1, "suspended": 2, "too_large": 3,
    }  # fmt: skip


def test_the_largest_tenants_have_a_label_and_the_others_share_one():
    links = {}
    for number in range(25):
        links[str(number)] = link = CountedConnection()
        link.tenant = SimpleNamespace(root=f"t{number}")
        link.cache_budget = SimpleNamespace(size=100 + number)
    counts = TenantCounts(links, lambda: 0, count_suspended=lambda: 0, count_too_large=lambda: 0)

    def size(tenant: str) -> float | None:
        return REGISTRY.get_sample_value("vc_tenant_cache_bytes", {"tenant": tenant})

    assert (size("t24"), size("t5"), size("t4")) == (124, 105, None)
    assert size("other") == 100 + 101 + 102 + 103 + 104
    del counts
    gc.collect()
    assert size("t24") is None, "another syncer of the same process does not report it"


class CountedCluster:
    def __init__(self, *, ready=True, problem="", held=False, behind=""):
        self.is_ready, self.problem, self.is_held = ready, problem, held
        self.watch_problem = behind

    @property
    def pod_loss_guard(self):
        return self


def test_other_super_clusters_are_counted_by_what_is_true_of_them():
    followed = {
        "a": CountedCluster(),
        "b": CountedCluster(ready=False),
        "c": CountedCluster(problem="silent", held=True),
        "d": CountedCluster(behind="403"),
    }
    counts = TargetCounts(followed, lambda: 5)
    found = {
        condition: REGISTRY.get_sample_value("vc_targets", {"condition": condition})
        for condition in ("declared", "not_connected", "unreachable", "losses_held")
    }
    assert counts
    assert found == {"declared": 5, "not_connected": 3, "unreachable": 1, "losses_held": 1}
