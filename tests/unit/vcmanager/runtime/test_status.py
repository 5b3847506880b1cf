import pytest

from tenancy import conditions, wellknown
from vcmanager.runtime import status
from vcmanager.runtime.status import ReconcileStatus

THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def report(
    *said, held=None, stalled=False, deleting=False, now=NOW, old=None, **more
) -> ReconcileStatus:
    made = ReconcileStatus(generation=2, now=now, **more)
    for kind, state, reason, *failing in said:
        made.set_condition(kind, state, reason, f"{kind} {reason}", is_failure=bool(failing))
    made.summarize(blocked=held, is_stalled=stalled, is_deleting=deleting, old=old)
    return made


def by_type(document):
    return {each["type"]: each for each in document["conditions"]}


READY = ((wellknown.CERTIFICATES_READY, "True", "Issued"), (wellknown.ETCD_READY, "True", "Ready"))
STARTING = (
    (wellknown.CERTIFICATES_READY, "True", "Issued"),
    (wellknown.ETCD_READY, "False", "Starting"),
)


def test_all_well_is_running_in_upstreams_words():
    document = report(*READY, cluster_namespace="root").build_status({})
    assert (document["phase"], document["reason"], document["message"]) == (
        "Running",
        "TenantControlPlaneRunning",
        "The tenant control plane is running.",
    )
    assert by_type(document)[wellknown.READY]["status"] == "True"
    assert not {status.RECONCILING, status.STALLED} & set(by_type(document))
    assert document["observedGeneration"] == 2
    assert document["clusterNamespace"] == "root"


def test_the_first_thing_missing_is_the_summary():
    document = report(*STARTING).build_status({})
    ready = by_type(document)[wellknown.READY]
    assert (ready["status"], ready["reason"]) == ("False", "Starting")
    assert (document["phase"], document["reason"]) == ("Pending", "ClusterCreating")
    assert by_type(document)[status.RECONCILING]["status"] == "True"


def test_who_ran_once_stays_running_while_a_part_restarts():
    document = report(*STARTING).build_status({"phase": "Running"})
    assert (document["phase"], document["reason"]) == ("Running", "Starting")


def test_what_needs_a_person_is_an_error_and_stalled():
    document = report(held=("InvalidSpec", "spec.x is wrong"), stalled=True).build_status({})
    assert (document["phase"], document["message"]) == ("Error", "spec.x is wrong")
    assert by_type(document)[status.STALLED]["reason"] == "InvalidSpec"
    assert status.RECONCILING not in by_type(document)


def test_an_error_is_left_as_soon_as_it_is_mended():
    old = report(held=("InvalidSpec", "wrong"), stalled=True).build_status({})
    assert report(*READY).build_status(old)["phase"] == "Running"
    assert report(*STARTING).build_status(old)["phase"] == "Pending"


def test_deleting_reports_it():
    document = report(held=("Deleting", "waiting for x"), deleting=True).build_status(
        {"phase": "Running"}
    )
    assert by_type(document)[status.RECONCILING]["reason"] == "Deleting"
    assert by_type(document)[wellknown.READY]["message"] == "waiting for x"


def test_an_ephemeral_store_does_not_keep_a_tenant_from_being_ready():
    document = report((wellknown.STORE_EPHEMERAL, "True", "NoVolume"), *READY).build_status({})
    assert by_type(document)[wellknown.READY]["status"] == "True"


def test_a_name_server_on_its_way_does_not_keep_a_tenant_from_being_ready():
    made = report(*READY, (wellknown.DNS_READY, "False", "Starting"))
    found = by_type(made.build_status({}))
    assert (found[wellknown.READY]["status"], found[status.RECONCILING]["status"]) == (
        "True",
        "True",
    )
    assert not made.is_settled
    made = report(*READY, (wellknown.DNS_READY, "False", "ImagePullBackOff", "failing"))
    assert by_type(made.build_status({}))[wellknown.READY]["reason"] == "ImagePullBackOff"
    made = report(*STARTING, (wellknown.DNS_READY, "False", "Starting"))
    assert by_type(made.build_status({}))[wellknown.READY]["status"] == "False"
    made = report(*READY, (wellknown.DNS_READY, "False", "Starting"), held=("Forbidden", "a quota"))
    assert by_type(made.build_status({}))[wellknown.READY]["reason"] == "Forbidden"
    assert report(*READY).is_settled


@pytest.mark.parametrize(
    ("old", "now", "expected"),
    [
        ({}, THEN, "True"),
        ({"dns": "False"}, THEN, "True"),
        ({"dns": "False"}, "2026-01-01T00:06:00Z", "False"),  # it takes too long
        ({"dns": "True", "ready": "True", "phase": "Running"}, NOW, "True"),
        ({"dns": "False", "ready": "True", "phase": "Running"}, THEN, "True"),
        ({"dns": "False", "ready": "False", "phase": "Running"}, THEN, "False"),  # lost again
        ({"dns": "False", "ready": "False", "phase": "Pending"}, THEN, "True"),
    ],
)
def test_ready_does_not_go_to_and_fro_with_the_name_server(old, now, expected):
    kinds = {"dns": wellknown.DNS_READY, "ready": wellknown.READY}
    before = {
        "phase": old.get("phase"),
        "conditions": [
            conditions.build_condition(kinds[key], state, "Starting", "m", now=THEN, generation=1)
            for key, state in old.items()
            if key in kinds
        ],
    }
    made = report(*READY, (wellknown.DNS_READY, "False", "Starting"), old=before, now=now)
    assert by_type(made.build_status(before))[wellknown.READY]["status"] == expected


@pytest.mark.parametrize("failing", [(), ("failing",)])
@pytest.mark.parametrize("old", [{}, {"phase": "Running"}])
def test_a_tenant_is_ready_without_metrics_whatever_is_wrong_with_them(failing, old):
    made = report(*READY, (wellknown.METRICS_READY, "False", "ImagePullBackOff", *failing), old=old)
    found = by_type(made.build_status(old))
    assert (found[wellknown.READY]["status"], found[wellknown.METRICS_READY]["status"]) == (
        "True",
        "False",
    )
    assert not {status.RECONCILING, status.STALLED} & set(found)
    assert made.is_settled
    assert not made.is_complete
    events = {
        reason: kind
        for kind, reason, _ in status.iterate_events(
            made.build_status(old), old, made.failing_conditions
        )
    }
    assert events.get("ImagePullBackOff") == ("Warning" if failing else None)
    assert report(*READY, (wellknown.METRICS_READY, "True", "Ready")).is_complete
    assert report(*READY).is_complete


def test_what_is_missing_is_the_summary_and_never_the_metrics():
    made = report((wellknown.METRICS_READY, "False", "AddressTaken"), *STARTING)
    assert by_type(made.build_status({}))[wellknown.READY]["reason"] == "Starting"


def test_the_first_word_about_a_condition_stays():
    made = report(
        (wellknown.API_SERVER_READY, "False", "Unreachable"),
        (wellknown.API_SERVER_READY, "True", "Ready"),
    )
    assert by_type(made.build_status({}))[wellknown.API_SERVER_READY]["reason"] == "Unreachable"


def test_times_stay_while_a_status_stays():
    old = report(*STARTING, now=THEN).build_status({})
    new = by_type(report(*READY).build_status(old))
    assert new[wellknown.CERTIFICATES_READY]["lastTransitionTime"] == THEN
    assert new[wellknown.ETCD_READY]["lastTransitionTime"] == NOW
    assert new[wellknown.READY]["lastTransitionTime"] == NOW


def test_what_is_known_stays_when_it_could_not_be_found_out_again():
    old = {"endpoint": "https://e", "serviceCidr": "c", "version": "v", "clusterNamespace": "n"}
    document = report(held=("X", "y")).build_status(old)
    assert {key: document[key] for key in old} == old


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("Ready", "Ready"),
        ("Err Image:Pull", "ErrImagePull"),
        ("", "Unknown"),
        ("1x", "x"),
        ("é", "Unknown"),
    ],
)
def test_reasons_of_others_become_ones_the_api_takes(reason, expected):
    document = report((wellknown.ETCD_READY, "False", reason)).build_status({})
    assert by_type(document)[wellknown.ETCD_READY]["reason"] == expected


def test_nothing_is_written_when_all_of_it_is_there():
    document = report(*READY, endpoint="https://e").build_status({})
    synced = conditions.build_condition("Synced", "True", "r", "m", now=THEN, generation=1)
    live = {**document, "conditions": [synced, *document["conditions"]], "other": "field"}
    assert status.is_status_current(report(*READY, endpoint="https://e").build_status(live), live)
    assert not status.is_status_current(report(*STARTING).build_status(live), live)


def test_a_condition_that_is_no_longer_reported_is_a_reason_to_write():
    old = report(*STARTING).build_status({})
    extra = conditions.build_condition(status.STALLED, "True", "r", "m", now=THEN, generation=1)
    live = {**old, "conditions": [*old["conditions"], extra]}
    assert not status.is_status_current(report(*STARTING).build_status(live), live)


def news(new: ReconcileStatus, old: dict):
    return list(status.iterate_events(new.build_status(old), old, new.failing_conditions))


def test_becoming_ready_is_news_once():
    first = report(*READY)
    assert [(kind, reason) for kind, reason, _ in news(first, {})] == [
        ("Normal", wellknown.READY),
        ("Normal", wellknown.ETCD_READY),
    ]
    assert news(report(*READY), first.build_status({})) == []


def test_starting_is_no_news_and_failing_is():
    assert news(report(*STARTING), {}) == []
    failing = report((wellknown.ETCD_READY, "False", "ImagePullBackOff", "failing"))
    assert ("Warning", "ImagePullBackOff", "EtcdReady ImagePullBackOff") in news(failing, {})
    again = report((wellknown.ETCD_READY, "False", "ImagePullBackOff", "failing"))
    assert news(again, failing.build_status({})) == []


def test_stalling_is_a_warning():
    stalled = report(held=("InvalidSpec", "wrong"), stalled=True)
    assert ("Warning", "InvalidSpec", "wrong") in news(stalled, {})


ASLEEP = (wellknown.ASLEEP, "The tenant is asleep.")


def test_an_asleep_tenant_is_as_desired_and_not_ready():
    """REL-132."""
    document = report(held=ASLEEP).build_status({"phase": "Running"})
    assert (document["phase"], document["reason"]) == (wellknown.ASLEEP, wellknown.ASLEEP)
    found = by_type(document)
    assert (found[wellknown.READY]["status"], found[wellknown.READY]["reason"]) == (
        *("False", wellknown.ASLEEP),
    )
    assert not {status.RECONCILING, status.STALLED} & set(found)
    assert report(held=ASLEEP).is_settled
    assert report(*STARTING).build_status(document)["phase"] == "Pending"
    assert report(*READY).build_status(document)["phase"] == "Running"


def test_falling_asleep_is_progress_and_being_asleep_is_news_once():
    falling = report(held=("FallingAsleep", "Waiting."))
    document = falling.build_status({"phase": "Running"})
    assert document["phase"] == "Running"
    assert by_type(document)[status.RECONCILING]["status"] == "True"
    assert news(report(held=ASLEEP), document) == [("Normal", *ASLEEP)]
    assert news(report(held=ASLEEP), report(held=ASLEEP).build_status({})) == []


def test_a_pause_repeats_the_old_conditions_and_their_times():
    old = report(*READY, now=THEN).build_status({})
    paused = ReconcileStatus(generation=3, now=NOW)
    paused.carry_over_all(old)
    paused.set_condition(wellknown.PAUSED, "True", "PausedUntil", "until tomorrow")
    document = paused.build_status(old)
    found = by_type(document)
    assert (document["phase"], found[wellknown.READY]["status"]) == ("Running", "True")
    assert found[wellknown.READY]["lastTransitionTime"] == THEN
    assert found[wellknown.READY]["observedGeneration"] == 2, "the new spec is not carried out"
    assert found[wellknown.PAUSED]["observedGeneration"] == document["observedGeneration"] == 3
    assert wellknown.PAUSED not in by_type(report(*READY).build_status(document))


def test_an_expiry_is_a_warning_and_does_not_end_readiness():
    expiring = report((wellknown.EXPIRING, "True", "ExpiresSoon"), *READY)
    assert by_type(expiring.build_status({}))[wellknown.READY]["status"] == "True"
    assert ("Warning", "ExpiresSoon", "Expiring ExpiresSoon") in news(expiring, {})
