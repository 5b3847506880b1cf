"""Memory of the attempts to place one pod."""

from __future__ import annotations

from syncer.placement.reschedule_states import RescheduleState


def test_an_attempt_ends_with_its_quota_and_its_scale_up():
    state = RescheduleState()
    state.record_refused()
    state.record_scale_up(3.0)
    assert (state.is_refused, state.get_scale_up_age(5.0)) == (True, 2.0)
    state.record_tried("c2")
    assert (state.is_refused, state.get_scale_up_age(5.0)) == (False, None)
    assert set(state.tried_clusters) == {"c2"}


def test_after_all_clusters_it_starts_over_later():
    state = RescheduleState()
    state.record_tried("c2")
    state.start_over(60.0)
    assert not state.tried_clusters
    assert state.retry_at == 60.0


def test_a_create_without_answer_is_remembered_until_its_cluster_has_no_twin():
    state = RescheduleState()
    assert state.get_unanswered_age(1.0) is None
    state.record_unanswered_create(1.0)
    assert state.get_unanswered_age(31.0) == 30.0
    state.clear_unanswered_create()
    assert state.get_unanswered_age(31.0) is None
