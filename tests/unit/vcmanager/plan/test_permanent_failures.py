"""Failures that only a person ends, in the words of kubelets, controllers and registries."""

import pytest

from tenancy import wellknown
from vcmanager.plan import permanent_failures

PULL = "ImagePullBackOff: container etcd of pod etcd-0 waits: "
RESOLVE = 'failed to pull and unpack image "r.example/etcd:9": failed to resolve reference'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            f'{PULL}{RESOLVE} "r.example/etcd:9": r.example/etcd:9: not found',
            wellknown.IMAGE_NOT_FOUND,
        ),
        (
            (
                'ImagePullBackOff: Back-off pulling image "e:9": ErrImagePull: rpc error: code ='
                " NotFound desc = e:9: not found"
            ),
            wellknown.IMAGE_NOT_FOUND,
        ),
        (
            f"{PULL}reading manifest 9 in r.example/etcd: manifest unknown",
            wellknown.IMAGE_NOT_FOUND,
        ),
        (
            f"{PULL}{RESOLVE}: pull access denied, repository does not exist",
            wellknown.IMAGE_NOT_FOUND,
        ),
        (f"{PULL}no match for platform in manifest: not found", wellknown.IMAGE_NOT_FOUND),
        ('InvalidImageName: failed to parse image name "E:9"', wellknown.INVALID_IMAGE_NAME),
        ("ErrImageNeverPull: container image is not present", wellknown.IMAGE_NEVER_PULLED),
        (
            (
                "FailedBinding: PersistentVolumeClaim data-etcd-0: no persistent volumes"
                " available for this claim and no storage class is set"
            ),
            wellknown.NO_STORAGE_CLASS,
        ),
        (
            (
                "ProvisioningFailed: PersistentVolumeClaim data-etcd-0:"
                ' storageclass.storage.k8s.io "fast" not found'
            ),
            wellknown.STORAGE_CLASS_NOT_FOUND,
        ),
        (
            (
                "FailedCreate: StatefulSet etcd: create Pod etcd-0 in StatefulSet etcd failed"
                ' error: pods "etcd-0" is forbidden: exceeded quota: small, requested: cpu=1'
            ),
            wellknown.QUOTA_EXCEEDED,
        ),
        (
            'FailedCreate: pods "etcd-0" is forbidden: violates PodSecurity "restricted"',
            wellknown.POD_SECURITY_VIOLATED,
        ),
    ],
)
def test_what_only_a_person_ends_has_a_reason_and_a_remedy(text: str, reason: str):
    found = permanent_failures.find_failure(*text.split(": ", 1))
    assert found is not None
    assert found.reason == reason
    assert found.remedy


def test_clients_know_every_reason():
    assert {found.reason for _, found in permanent_failures._FAILURES} == (
        wellknown.PERMANENT_REASONS
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Starting: etcd is starting, 0 of 1 ready",
        f"{PULL}{RESOLVE}: dial tcp: lookup r.example: no such host",
        f"{PULL}{RESOLVE}: unexpected status from HEAD request: 503 Service Unavailable",
        f"{PULL}{RESOLVE}: dial tcp 192.0.2.1:443: i/o timeout",
        f'{PULL}Back-off pulling image "etcd:9"',
        (
            "FailedScheduling: pod etcd-0 cannot be scheduled: 0/3 nodes are available: pod"
            " has unbound immediate PersistentVolumeClaims"
        ),
        "FailedScheduling: 0/3 nodes are available: 3 Insufficient cpu",
        'CreateContainerConfigError: secret "etcd-tls" not found',
        'FailedCreate: error looking up service account a/b: serviceaccount "b" not found',
        "CrashLoopBackOff: back-off 10s restarting failed container",
    ],
)
def test_what_may_end_by_itself_has_none(text: str):
    assert permanent_failures.find_failure(*text.partition(": ")[::2]) is None
