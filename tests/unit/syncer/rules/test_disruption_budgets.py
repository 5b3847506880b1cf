"""Disruption budgets: the tenant's number below, lowered so that a drain ends."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeio.cache.store import parse_entry
from syncer.model.rejections import ForbiddenObjectError, RejectedError
from syncer.model.tenant_view import TenantView
from syncer.rules import disruption_budgets
from tenancy import wellknown
from tests.support.syncer.tenant_views import (
    TENANT,
    add,
    as_live,
    network_view,
    object_of,
    policy,
)

BLOCKING = policy(sync={"blockingDisruptionBudgets": "Allow"})


def budget(desired: Any = 2, **spec: Any) -> dict[str, Any]:
    """Return a budget that the tenant's controller has looked at."""
    status = {"desiredHealthy": desired, "observedGeneration": 1}
    selector = {"matchLabels": {"app": "web"}}
    return object_of(
        "PodDisruptionBudget",
        spec={"selector": selector, "maxUnavailable": 1, **spec},
        status=status,
    )


READY = [{"type": "Ready", "status": "True"}]


def add_pod(
    view: TenantView, name: str, *, app: str = "web", phase: str = "Running", ready: bool = True
) -> None:
    """Put a pod below."""
    add(
        view.super_stores["Pod"],
        name,
        namespace=view.get_super_namespace("web"),
        labels={"app": app, wellknown.VC_UID: TENANT.uid},
        status={"phase": phase, "conditions": READY if ready else []},
    )


def with_pods(count: int, *, unready: int = 0, phase: str = "Running", **fields: Any) -> TenantView:
    """Return a look at a tenant with so many pods below, and so many that are not ready."""
    view = network_view(**fields)
    for number in range(count + unready):
        add_pod(view, f"p{number}", phase=phase, ready=number < count)
    return view


def least(found: dict[str, Any], view: TenantView) -> int:
    """Return minAvailable of the twin."""
    number: int = disruption_budgets.build_disruption_budget(found, view)["spec"]["minAvailable"]
    return number


def test_a_plain_number_and_a_marked_selector():
    own = budget(maxUnavailable="30%")
    twin = disruption_budgets.build_disruption_budget(own, with_pods(3))
    assert twin["spec"] == {
        "minAvailable": 2,
        "selector": {"matchLabels": {"app": "web", wellknown.VC_UID: TENANT.uid}},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    assert disruption_budgets.build_change(as_live(twin), twin) is None
    drifted = {"maxUnavailable": 0, **twin["spec"]}
    assert disruption_budgets.build_change(as_live(twin, spec=drifted), twin) is not None


@given(st.integers(0, 50), st.integers(0, 8), st.integers(0, 3))
def test_one_healthy_pod_may_always_go(desired: int, healthy: int, unready: int):
    number = least(budget(desired), with_pods(healthy, unready=unready))
    assert number <= desired
    assert not healthy or number < healthy
    assert number == desired or number == healthy - 1
    assert least(budget(desired), with_pods(healthy, unready=unready, policy=BLOCKING)) == desired


@pytest.mark.parametrize("own", [None, "IfHealthyBudget", "AlwaysAllow"])
def test_an_unhealthy_pod_may_always_go_unless_budgets_may_block(own):
    fields = {} if own is None else {"unhealthyPodEvictionPolicy": own}
    twin = disruption_budgets.build_disruption_budget(budget(3, **fields), with_pods(0, unready=3))
    assert twin["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    view = with_pods(0, unready=3, policy=BLOCKING)
    twin = disruption_budgets.build_disruption_budget(budget(3, **fields), view)
    assert twin["spec"].get("unhealthyPodEvictionPolicy") == own


def test_pods_that_ended_are_not_counted_nor_those_of_others():
    view = with_pods(1, phase="Succeeded")
    add_pod(view, "other", app="other")
    assert least(budget(1), view) == 1
    add_pod(view, "q")
    assert least(budget(1), view) == 0


def named(name: str, **selector: Any) -> dict[str, Any]:
    """Return a budget of a name, for pods with the label `app: web` if it does not say another."""
    found = budget(selector=selector or {"matchLabels": {"app": "web"}})
    found["metadata"] |= {"name": name, "uid": f"{name}-uid"}
    return found


def put_below(view: TenantView, own: dict[str, Any], made: str) -> None:
    """Put the twin of a budget below."""
    twin = disruption_budgets.build_disruption_budget(own, network_view())
    metadata = {**twin["metadata"], "uid": "below", "creationTimestamp": made}
    body = orjson.dumps({**twin, "metadata": metadata})
    view.super_stores["PodDisruptionBudget"].put(parse_entry(body), live=True)


EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"
WIDE: dict[str, Any] = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}


@pytest.mark.parametrize(
    ("selector", "pods", "is_refused"),
    [
        ({"matchLabels": {"app": "web"}}, 0, True),  # the same, whatever it selects
        (WIDE, 0, False),
        (WIDE, 1, True),
        ({"matchLabels": {"app": "other"}}, 1, False),
    ],
)
def test_a_pod_has_one_budget(selector, pods, is_refused):
    view = with_pods(pods)
    put_below(view, named("first"), EARLY)
    second = named("second", **selector)
    if not is_refused:
        disruption_budgets.build_disruption_budget(second, view)
        return
    with pytest.raises(ForbiddenObjectError) as refused:
        disruption_budgets.build_disruption_budget(second, view)
    assert [problem.rule for problem in refused.value.problems] == ["budget-overlap"]
    assert "the budget first" in str(refused.value)
    free = with_pods(pods, policy=BLOCKING)
    put_below(free, named("first"), EARLY)
    disruption_budgets.build_disruption_budget(second, free)


@pytest.mark.parametrize(("first", "second"), [(EARLY, LATE), (EARLY, EARLY)])
def test_of_two_that_are_below_the_older_one_stays(first, second):
    view = with_pods(1)
    put_below(view, named("a"), first)
    put_below(view, named("b"), second)
    disruption_budgets.build_disruption_budget(named("a"), view)
    with pytest.raises(ForbiddenObjectError):
        disruption_budgets.build_disruption_budget(named("b"), view)


def test_so_many_budgets_go_down_where_none_may_block():
    view = network_view()
    for number in range(disruption_budgets.MAX_BUDGETS):
        one = named(f"b{number}", matchLabels={"app": f"a{number}"})
        put_below(view, one, EARLY)
    disruption_budgets.build_disruption_budget(one, view)  # it is one of them
    with pytest.raises(ForbiddenObjectError) as refused:
        disruption_budgets.build_disruption_budget(named("more"), view)
    assert [problem.rule for problem in refused.value.problems] == ["too-many-budgets"]


def test_no_selector_selects_nothing():
    own = budget()
    del own["spec"]["selector"]
    assert "selector" not in disruption_budgets.build_disruption_budget(own, with_pods(3))["spec"]
    empty = disruption_budgets.build_disruption_budget(budget(selector={}), with_pods(3))
    assert empty["spec"]["selector"] == {"matchLabels": {wellknown.VC_UID: TENANT.uid}}


@pytest.mark.parametrize(
    ("own", "rule"),
    [
        (budget(desired=-1), "malformed"),
        (budget(desired="2"), "malformed"),
        (budget(desired=True), "malformed"),
        (budget(desired=1 << 40), "malformed"),
        (budget(selector="all"), "malformed"),
        (budget(selector={"matchExpressions": [{"key": "a"}]}), "malformed"),
        (budget(surprise=1), "unknown-field"),
        (budget(unhealthyPodEvictionPolicy=["AlwaysAllow"]), "malformed"),
        (budget(selector={"matchLabels": {f"k{n}": "" for n in range(101)}}), "too-large"),
    ],
)
def test_budgets_that_are_rejected(own, rule):
    with pytest.raises(RejectedError) as rejected:
        disruption_budgets.build_disruption_budget(own, with_pods(3))
    assert {problem.rule for problem in rejected.value.problems} == {rule}


@pytest.mark.parametrize("key", ["istio.io/rev", wellknown.VC_UID])
def test_a_selector_by_a_label_that_is_not_synced_names_its_translated_key(key):
    selector = {"matchLabels": {key: "x"}, "matchExpressions": [{"key": key, "operator": "Exists"}]}
    twin = disruption_budgets.build_disruption_budget(budget(selector=selector), with_pods(3))
    translated = wellknown.translate_label_key(key)
    assert twin["spec"]["selector"] == {
        "matchLabels": {translated: "x", wellknown.VC_UID: TENANT.uid},
        "matchExpressions": [{"key": translated, "operator": "Exists"}],
    }


def test_a_cluster_without_budgets_is_reported():
    view = with_pods(3, policy=policy(sync={"podDisruptionBudgets": "Refuse"}))
    with pytest.raises(ForbiddenObjectError):
        disruption_budgets.build_disruption_budget(budget(), view)


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ({"observedGeneration": 1, "desiredHealthy": 0}, True),
        ({"desiredHealthy": 3}, False),
        ({"observedGeneration": 1}, False),
        ({}, False),
        (["forged"], False),
        (None, False),
    ],
)
def test_a_budget_waits_for_its_controller(status, wanted):
    entry = parse_entry(orjson.dumps(object_of("PodDisruptionBudget", status=status)))
    assert disruption_budgets.is_wanted(entry, network_view()) is wanted


def test_only_less_than_the_tenant_wants_is_lowered_slowly():
    own = budget(2)
    twin = disruption_budgets.build_disruption_budget(own, with_pods(2))
    before = as_live(twin, spec={**twin["spec"], "minAvailable": 2})
    assert disruption_budgets.is_being_lowered(own, before, twin)
    given_up = budget(1)
    wish = disruption_budgets.build_disruption_budget(given_up, with_pods(3))
    assert not disruption_budgets.is_being_lowered(given_up, before, wish)
    assert not disruption_budgets.is_being_lowered(own, as_live(twin), twin)


def test_pods_that_are_not_healthy_have_a_longer_time_than_pods_that_are_gone():
    fewer, unhealthy = with_pods(2), with_pods(2, unready=1)
    for view, is_short in ((fewer, False), (unhealthy, True)):
        twin = disruption_budgets.build_disruption_budget(budget(2), view)
        assert twin["spec"]["minAvailable"] == 1
        assert disruption_budgets.is_short_of_healthy(twin, "web", view) is is_short
