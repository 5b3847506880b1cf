import pytest

from tenancy import wellknown
from tests.support.vcmanager.factories import pod, workload
from vcmanager.plan import component_status


def waiting(reason, message="", **more):
    return {"name": "etcd", "state": {"waiting": {"reason": reason, "message": message}}, **more}


def test_nothing_is_there_yet():
    verdict = component_status.evaluate_component("etcd", None, [])
    assert (verdict.is_ready, verdict.reason, verdict.is_failure) == (False, "NotCreated", False)


@pytest.mark.parametrize(
    ("found", "ready"),
    [
        (workload(ready=1), True),
        (workload(replicas=3, ready=3), True),
        (workload(replicas=3, ready=2), False),
        (workload(replicas=0), False),  # stopped for a scheduled deletion
        (workload(ready=0), False),
        (workload(ready=1, observedGeneration=0), False),
        (workload(ready=1, updatedReplicas=0), False),
        ({**workload(), "status": {}}, False),
    ],
)
def test_ready_means_all_pods_of_the_newest_template(found, ready):
    assert component_status.evaluate_component("etcd", found, []).is_ready is ready


def test_old_pods_are_ready_where_the_template_keeps_them():
    found = workload(ready=1, updatedReplicas=0)
    found["spec"]["updateStrategy"] = {"type": "OnDelete"}
    assert component_status.evaluate_component("etcd", found, []).is_ready


@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [
        (
            {"containerStatuses": [waiting("ImagePullBackOff", 'Back-off pulling image "x"')]},
            "ImagePullBackOff",
            'container etcd of pod etcd-0 waits: Back-off pulling image "x"',
        ),
        (
            {
                "containerStatuses": [
                    waiting(
                        "CrashLoopBackOff",
                        "back-off 10s",
                        restartCount=4,
                        lastState={"terminated": {"exitCode": 1, "reason": "Error"}},
                    )
                ]
            },
            "CrashLoopBackOff",
            "It last ended with exit code 1 (Error) after 4 restarts",
        ),
        (
            {
                "containerStatuses": [
                    waiting(
                        "CrashLoopBackOff",
                        "back-off 10s",
                        lastState={
                            "terminated": {
                                "exitCode": 1,
                                "message": "I1 token abc\nError: unknown flag: --no\nSee --help\n",
                            }
                        },
                    )
                ]
            },
            "CrashLoopBackOff",
            "restarts: Error: unknown flag: --no",
        ),
        (
            {
                "containerStatuses": [
                    waiting(
                        "CrashLoopBackOff",
                        "back-off 10s",
                        lastState={
                            "terminated": {
                                "exitCode": 1,
                                "message": 'E1 x] "command failed" err="no feature gate: A"',
                            }
                        },
                    )
                ]
            },
            "CrashLoopBackOff",
            'restarts: "command failed" err="no feature gate: A"',
        ),
        (
            {"initContainerStatuses": [waiting("CreateContainerConfigError", "no secret")]},
            "CreateContainerConfigError",
            "no secret",
        ),
        (
            {
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/1 nodes are available: 1 Insufficient cpu.",
                    }
                ]
            },
            "FailedScheduling",
            "Insufficient cpu",
        ),
        (
            {
                "containerStatuses": [
                    {"name": "etcd", "state": {"terminated": {"exitCode": 2, "reason": "Error"}}}
                ]
            },
            "Error",
            "ended with exit code 2",
        ),
        (
            {"phase": "Failed", "reason": "Evicted", "message": "low on memory"},
            "Evicted",
            "low on memory",
        ),
    ],
)
def test_the_failing_pods_own_words_are_reported(status, reason, words):
    verdict = component_status.evaluate_component(
        "etcd", workload(), [pod("etcd-0", "etcd", **status)]
    )
    assert verdict.reason == reason
    assert words in verdict.message
    assert verdict.is_failure
    assert not verdict.is_ready


CAUSE = 'failed to pull and unpack image "x": failed to resolve reference "x": no such host'
MISSING = 'failed to pull and unpack image "x": failed to resolve reference "x": x: not found'


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("ErrImagePull", CAUSE),
        ("ImagePullBackOff", f'Back-off pulling image "x": ErrImagePull: {CAUSE}'),
        ("ImagePullBackOff", f'Back-off pulling image "x": {CAUSE}'),
        ("RegistryUnavailable", CAUSE),
        ("ImagePullBackOff", f'Back-off pulling image "x": RegistryUnavailable: {CAUSE}'),
        ("SignatureValidationFailed", CAUSE),
    ],
)
def test_a_failed_pull_has_one_reason_and_one_text(reason, message):
    """A kubelet has two spellings, and alternates between them with every attempt."""
    status = {"containerStatuses": [waiting(reason, message)]}
    verdict = component_status.evaluate_component(
        "etcd", workload(), [pod("etcd-0", "etcd", **status)]
    )
    assert (verdict.reason, verdict.is_failure) == ("ImagePullBackOff", True)
    assert verdict.message == f"container etcd of pod etcd-0 waits: {CAUSE}"


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("ErrImagePull", MISSING),
        ("ImagePullBackOff", f'Back-off pulling image "x": ErrImagePull: {MISSING}'),
    ],
)
def test_an_image_that_its_registry_does_not_have_is_a_failure_of_its_own(reason, message):
    status = {"containerStatuses": [waiting(reason, message)]}
    verdict = component_status.evaluate_component(
        "etcd", workload(), [pod("etcd-0", "etcd", **status)]
    )
    assert (verdict.reason, verdict.is_failure) == (wellknown.IMAGE_NOT_FOUND, True)
    assert verdict.message == (
        f"container etcd of pod etcd-0 waits: {MISSING}; push the image, or correct its name in"
        " the ClusterVersion"
    )


@pytest.mark.parametrize("message", ["", 'Back-off pulling image "x"', "Back-off pulling: why"])
def test_a_failed_pull_without_a_cause_keeps_its_words(message):
    status = {"containerStatuses": [waiting("ImagePullBackOff", message)]}
    verdict = component_status.evaluate_component(
        "etcd", workload(), [pod("etcd-0", "etcd", **status)]
    )
    assert verdict.message == f"container etcd of pod etcd-0 waits: {message or verdict.reason}"


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"containerStatuses": [waiting("ContainerCreating")]},
        {"containerStatuses": [waiting("PodInitializing")]},
        {"containerStatuses": [{"name": "etcd", "state": {"running": {}}}]},
        {"containerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}}]},
        {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "SchedulerError",
                    "message": "",
                }
            ]
        },
    ],
)
def test_a_pod_on_its_way_is_no_failure(status):
    verdict = component_status.evaluate_component(
        "etcd", workload(), [pod("etcd-0", "etcd", **status)]
    )
    assert (verdict.reason, verdict.is_failure) == ("Starting", False)


def event(name, reason, message="m", at="2026-01-01T00:00:00Z", kind="Pod"):
    return {
        "involvedObject": {"name": name, "kind": kind},
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
    }


def test_events_speak_when_pods_do_not():
    warnings = [
        event("etcd-0", "FailedMount", "secret not found", "2026-01-01T00:00:01Z"),
        event("etcd", "FailedCreate", "exceeded quota", "2026-01-01T00:00:02Z", "StatefulSet"),
        event("apiserver-0", "FailedMount", "not mine", "2026-01-01T00:00:09Z"),
    ]
    verdict = component_status.evaluate_component("etcd", workload(), [], warnings)
    assert (verdict.reason, verdict.is_failure) == (wellknown.QUOTA_EXCEEDED, True)
    assert verdict.message == (
        "StatefulSet etcd: exceeded quota; raise the quota, or free a part of it"
    )


def test_the_volume_of_a_component_is_its_own_business():
    warnings = [event("data-etcd-0", "ProvisioningFailed", kind="PersistentVolumeClaim")]
    assert (
        component_status.evaluate_component("etcd", workload(), [], warnings).reason
        == "ProvisioningFailed"
    )
    assert (
        component_status.evaluate_component("apiserver", workload("apiserver"), [], warnings).reason
        == "Starting"
    )


def test_a_rollout_is_no_failure():
    verdict = component_status.evaluate_component(
        "etcd", workload(replicas=3, ready=3, updatedReplicas=1), []
    )
    assert (verdict.reason, verdict.is_failure) == ("RollingOut", False)


UNBOUND = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."
NO_CLASS = "no persistent volumes available for this claim and no storage class is set"


def unschedulable(message):
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return [pod("etcd-0", "etcd", conditions=[{**condition, "message": message}])]


@pytest.mark.parametrize(
    ("message", "events", "reason", "words"),
    [
        (UNBOUND, [], "FailedScheduling", UNBOUND),
        (
            UNBOUND,
            [event("data-etcd-0", "FailedBinding", NO_CLASS, kind="PersistentVolumeClaim")],
            wellknown.NO_STORAGE_CLASS,
            f"PersistentVolumeClaim data-etcd-0: {NO_CLASS}",
        ),
        (
            UNBOUND,
            [event("store-etcd-1", "FailedBinding", NO_CLASS, kind="PersistentVolumeClaim")],
            wellknown.NO_STORAGE_CLASS,
            f"PersistentVolumeClaim store-etcd-1: {NO_CLASS}",
        ),
        (
            UNBOUND,
            [
                event("data-other-0", "FailedBinding", NO_CLASS, kind="PersistentVolumeClaim"),
                event("etcd-0", "FailedScheduling", "words"),
            ],
            "FailedScheduling",
            UNBOUND,
        ),
        (
            "0/1 nodes are available: 1 Insufficient cpu.",
            [event("data-etcd-0", "FailedBinding", NO_CLASS, kind="PersistentVolumeClaim")],
            "FailedScheduling",
            "Insufficient cpu",
        ),
    ],
)
def test_a_pod_that_waits_for_its_claims_has_their_cause(message, events, reason, words):
    verdict = component_status.evaluate_component(
        "etcd", workload(), unschedulable(message), events
    )
    assert (verdict.reason, verdict.is_failure) == (reason, True)
    assert words in verdict.message
