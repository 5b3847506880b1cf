from datetime import timedelta
from ipaddress import ip_network

import pytest

from kubeio import errors
from tenancy import resources, wellknown
from tests.support.vcmanager.factories import NOW, TENANT, RecordingClient, fake_means, wish
from vcmanager.phases import tenant_bootstrap
from vcmanager.pki import bundles
from vcmanager.plan import control_plane, tenant_objects
from vcmanager.plan.service_cidrs import ServiceRange
from vcmanager.runtime import keys
from vcmanager.runtime.blocked import PhaseBlocked


def stamp(seconds):
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def cluster(age=10.0, **status):
    return {"metadata": {"creationTimestamp": stamp(age)}, "status": status}


def failing(seconds, kind=wellknown.API_SERVER_READY, reason="BootstrapFailed"):
    return [
        {"type": kind, "status": "False", "reason": reason, "lastTransitionTime": stamp(seconds)}
    ]


def test_the_first_start_is_waited_for_with_short_pauses():
    assert tenant_bootstrap.compute_retry_delay(cluster(), NOW) == 0.5
    assert (
        tenant_bootstrap.compute_retry_delay(cluster(phase="Pending", conditions=failing(100)), NOW)
        == 0.5
    )


@pytest.mark.parametrize(
    "old",
    [{"age": 301.0}, {"phase": "Running"}, {"phase": "Error", "version": "v1.36.4"}],
    ids=["for too long", "it runs", "it ran"],
)
@pytest.mark.parametrize("reason", ["Unreachable", "BootstrapFailed", "ControllersNotStarted"])
def test_a_tenant_cannot_keep_us_busy(old, reason):
    for kind in (wellknown.API_SERVER_READY, wellknown.CONTROLLER_MANAGER_READY):
        pauses = [
            tenant_bootstrap.compute_retry_delay(
                cluster(**old, conditions=failing(seconds, kind, reason)), NOW
            )
            for seconds in (0, 1, 8, 30, 9000)
        ]
        assert pauses == [1, 1, 8, 30, 30]
    assert tenant_bootstrap.compute_retry_delay(cluster(**old), NOW) == 1
    started = failing(9000, reason="CrashLoopBackOff")
    assert tenant_bootstrap.compute_retry_delay(cluster(**old, conditions=started), NOW) == 1


class FakeTenantClient:
    """Stands for a tenant's client."""

    def __init__(self, **problems):
        self.problems = problems

    async def version(self):
        return self._answer("version", "v1.36.4")

    async def apply(self, _resource, body, **_):
        return self._answer("apply", body)

    async def get(self, *_, **__):
        return self._answer("get", {})

    def _answer(self, verb, answer):
        if verb in self.problems:
            raise self.problems[verb]
        return answer


class FakeTenantClients:
    def __init__(self):
        self.asked = {}

    async def get(self, uid, kubeconfig, **more):
        self.asked = {"uid": uid, "kubeconfig": kubeconfig, **more}
        return FakeTenantClient()


def plan(**spec):
    return control_plane.build_plan(wish(**spec), ServiceRange(ip_network("10.96.8.0/22")))


async def enter(**problems):
    return await tenant_bootstrap.bootstrap_tenant(
        FakeTenantClient(**problems), plan(), dns_address="10.96.8.10", retry_after=7.0
    )


@pytest.mark.parametrize("metrics", ["none", "managed"])
async def test_what_is_ours_inside_is_watched_and_the_metrics_api_where_there_is_one(metrics):
    secret = {
        "metadata": {"name": "manager-kubeconfig"},
        "data": {"manager-kubeconfig": bundles.encode_base64(b"x")},
    }
    tenants, woken = FakeTenantClients(), []
    means = fake_means(RecordingClient(), tenant_clients=tenants, wake=woken.append)
    await tenant_bootstrap.connect_tenant(means, wish(), plan(metrics=metrics), secret=secret)
    assert tenants.asked["kubeconfig"] == b"x"
    watched = set(tenants.asked["watched_resources"])
    assert watched >= set(tenant_objects.BOOTSTRAP_RESOURCES)
    assert (resources.API_SERVICES in watched) is (metrics == "managed")
    tenants.asked["on_changed"]()
    assert woken == [keys.build_virtual_cluster_key(TENANT.namespace, TENANT.name)]


async def test_a_tenant_that_takes_our_objects_reports_its_version():
    assert await enter() == "v1.36.4"


@pytest.mark.parametrize(
    ("problems", "condition", "reason"),
    [
        ({"version": errors.NotSent("no")}, wellknown.API_SERVER_READY, "Unreachable"),
        ({"version": errors.Timeout("no")}, wellknown.API_SERVER_READY, "Unreachable"),
        ({"apply": errors.ServerError("webhook")}, wellknown.API_SERVER_READY, "BootstrapFailed"),
        ({"apply": errors.Forbidden("webhook")}, wellknown.API_SERVER_READY, "BootstrapFailed"),
        (
            {"get": errors.NotFound("no")},
            wellknown.CONTROLLER_MANAGER_READY,
            "ControllersNotStarted",
        ),
    ],
)
async def test_what_a_tenant_refuses_is_reported_and_tried_again_when_it_changes(
    problems, condition, reason
):
    with pytest.raises(PhaseBlocked) as caught:
        await enter(**problems)
    held = caught.value
    assert (held.condition, held.reason, held.retry_after) == (condition, reason, 7.0)
