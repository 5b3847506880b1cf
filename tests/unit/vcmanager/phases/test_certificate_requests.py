"""A tenant's request to renew its certificates, and its copy on the VirtualCluster."""

from datetime import timedelta

import pytest

from kubeio import errors
from tenancy import wellknown
from tests.support.vcmanager.factories import NOW, TENANT, RecordingClient, fake_means
from vcmanager.phases import certificate_requests
from vcmanager.runtime.certificate_expiry import CertificateValidity

VALIDITIES = {"apiserver-ca": CertificateValidity(NOW, NOW, NOW)}
EARLIER, LATER = NOW - timedelta(hours=2), NOW - timedelta(hours=1)


class FakeTenant:
    """Answers an apply with the annotations that the tenant set."""

    def __init__(self, request, problem=None):
        self.request, self.problem = request, problem

    async def apply(self, _resource, body, **_):
        if self.problem is not None:
            raise self.problem
        annotations = {wellknown.RENEW_CERTIFICATES: self.request} if self.request else {}
        return {**body, "metadata": {**body["metadata"], "annotations": annotations}}


async def exchange(request, known=None, problem=None):
    super_client = RecordingClient()
    annotations = {wellknown.RENEW_CERTIFICATES: known.isoformat()} if known else {}
    await certificate_requests.exchange(
        fake_means(super_client),
        FakeTenant(request, problem),
        {"metadata": {"annotations": annotations}},
        TENANT,
        VALIDITIES,
    )
    return super_client.bodies


@pytest.mark.parametrize(
    ("request_time", "known", "is_copied"),
    [
        (LATER.isoformat(), None, True),
        (LATER.isoformat(), EARLIER, True),
        (LATER.isoformat(), LATER, False),
        (EARLIER.isoformat(), LATER, False),
        ("", None, False),
        ("tomorrow", None, False),
        ((NOW + timedelta(days=1)).isoformat(), None, False),
    ],
)
async def test_only_a_newer_time_is_copied(request_time, known, is_copied):
    bodies = await exchange(request_time, known)
    expected = {
        "metadata": {
            "uid": TENANT.uid,
            "annotations": {wellknown.RENEW_CERTIFICATES: LATER.isoformat()},
        }
    }
    assert bodies == ([expected] if is_copied else [])


@pytest.mark.parametrize(
    "problem", [errors.NotFound("no kube-public"), errors.Forbidden("webhook")]
)
async def test_tenant_that_rejects_the_table_stays_ready(problem):
    assert await exchange(LATER.isoformat(), problem=problem) == []


@pytest.mark.parametrize(
    ("problem", "patches"), [(errors.AlreadyExists("it is there"), 1), (errors.Forbidden("no"), 0)]
)
async def test_events_of_ending_kubeconfigs_are_kept_alive_and_a_refusal_is_ignored(
    problem, patches
):
    created, patched = [], []

    class Tenant(FakeTenant):
        async def create(self, _resource, body, **_):
            created.append(body["reason"])
            raise problem

        async def patch(self, _resource, name, body, **_):
            patched.append((name, body))
            raise errors.NotFound("it was deleted meanwhile")

    await certificate_requests.exchange(
        fake_means(RecordingClient()),
        Tenant(""),
        {"metadata": {}},
        TENANT,
        VALIDITIES,
        replaced_ends=[NOW + timedelta(days=3), NOW + timedelta(days=80)],
        lifetime=timedelta(days=90),
    )
    assert created == ["KubeconfigEnds"]
    assert [list(body) for _, body in patched] == [["lastTimestamp"]] * patches
