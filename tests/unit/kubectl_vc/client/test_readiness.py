import pytest

from kubectl_vc.client import readiness
from kubectl_vc.client.readiness import BlockingCondition, Readiness
from tenancy import wellknown


def body(*conditions: tuple, generation: int = 1) -> dict:
    return {
        "metadata": {"generation": generation},
        "status": {
            "conditions": [
                {
                    "type": kind,
                    "status": status,
                    "reason": reason,
                    "message": "words",
                    "observedGeneration": seen,
                }
                for kind, status, reason, seen in [(*each, 1)[:4] for each in conditions]
            ]
        },
    }


def test_a_new_object_has_nothing_done_and_no_one_to_blame():
    state = readiness.assess_readiness({"metadata": {"generation": 1}})
    assert state == Readiness(
        has_conditions=False,
        is_ready=False,
        is_stalled=False,
        ready_components=(),
        blocker=None,
        failure=None,
    )


def test_components_are_reported_in_the_order_of_the_work():
    state = readiness.assess_readiness(
        body(
            (wellknown.CONTROLLER_MANAGER_READY, "True", "Ready"),
            (wellknown.ETCD_READY, "True", "Ready"),
        )
    )
    assert state.ready_components == ("etcd",), "the controllers wait for the API server"
    state = readiness.assess_readiness(
        body(
            *(
                (kind, "True", "Ready")
                for kind in (
                    wellknown.CONTROLLER_MANAGER_READY,
                    wellknown.API_SERVER_READY,
                    wellknown.ETCD_READY,
                )
            )
        )
    )
    assert state.ready_components == ("etcd", "apiserver", "controller-manager")


def test_the_first_part_that_is_not_ready_is_what_it_waits_for():
    state = readiness.assess_readiness(
        body(
            (wellknown.READY, "False", "NotReady"),
            (wellknown.API_SERVER_READY, "False", "Waiting"),
            (wellknown.ETCD_READY, "False", "ImagePullBackOff"),
        )
    )
    assert state.blocker == BlockingCondition("etcd", "ImagePullBackOff", "words")
    assert str(state.blocker) == "etcd: ImagePullBackOff: words"


def test_a_ready_object_has_all_components_and_no_blocker():
    state = readiness.assess_readiness(
        body((wellknown.READY, "True", "Ready"), (wellknown.SYNCED, "False", "X"))
    )
    assert state.is_ready
    assert state.ready_components == ("etcd", "apiserver", "controller-manager")
    assert state.blocker is None


def test_what_was_reported_of_an_older_generation_counts_for_nothing():
    state = readiness.assess_readiness(
        body(
            (wellknown.READY, "True", "Ready"),
            (wellknown.ETCD_READY, "False", "X", 2),
            generation=2,
        )
    )
    assert not state.is_ready
    assert state.blocker == BlockingCondition("etcd", "X", "words")


def test_a_stalled_object_specifies_why_itself_or_through_the_part_it_is_about():
    stalled = body(
        (wellknown.STALLED, "True", "NameCollision"), (wellknown.ETCD_READY, "Unknown", "New")
    )
    state = readiness.assess_readiness(stalled)
    assert state.is_stalled
    assert state.blocker == BlockingCondition("", "NameCollision", "words")
    same = body(
        (wellknown.STALLED, "True", "BadImage"), (wellknown.ETCD_READY, "False", "BadImage")
    )
    assert readiness.assess_readiness(same).blocker == BlockingCondition(
        "etcd", "BadImage", "words"
    )


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_an_object_that_is_ready_or_moves_is_not_stalled(status):
    assert not readiness.assess_readiness(body((wellknown.STALLED, status, "X"))).is_stalled
    assert not readiness.assess_readiness(
        body((wellknown.STALLED, "True", "X"), (wellknown.READY, "True", "Ready"))
    ).is_stalled


def test_the_two_spellings_of_a_failed_pull_are_one_reason():
    """As vc-manager of an earlier version reported them."""
    found = [
        readiness.assess_readiness(body((wellknown.ETCD_READY, "False", reason))).blocker
        for reason in ("ErrImagePull", "ImagePullBackOff")
    ]
    assert found[0] == found[1] == BlockingCondition("etcd", "ImagePullBackOff", "words")
    assert found[0] is not None
    assert found[0].key == "etcd/ImagePullBackOff"


@pytest.mark.parametrize("reason", sorted(wellknown.PERMANENT_REASONS))
def test_a_permanent_failure_is_found_behind_a_part_that_only_waits(reason):
    """A quota may refuse a Service of a part, so the part itself was never created."""
    found = readiness.assess_readiness(
        body((wellknown.READY, "False", reason), (wellknown.ETCD_READY, "False", "NotCreated"))
    )
    assert found.failure == BlockingCondition("VirtualCluster", reason, "words")
    assert found.blocker == BlockingCondition("etcd", "NotCreated", "words")
    for status, other in (("True", reason), ("False", "Forbidden")):
        state = readiness.assess_readiness(body((wellknown.READY, status, other)))
        assert state.failure is None
    outdated = body((wellknown.READY, "False", reason, 1), generation=2)
    assert readiness.assess_readiness(outdated).failure is None
