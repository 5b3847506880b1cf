"""A move is one patch of one Secret, and a stage is settled only by a reconcile without writes."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from kubeio import errors
from tenancy import wellknown
from tests.support.vcmanager.factories import FACTS, NOW, RecordingClient, fake_means, wish
from vcmanager.phases import authority_rotation
from vcmanager.phases.certificates import IssuedCertificates
from vcmanager.pki import rotated_secrets, rotation
from vcmanager.plan import pki_secrets
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.observed import ObservedObjects

EMPTY = ObservedObjects(namespace=None)


class Store(RecordingClient):
    """Merges patches of Secrets, or refuses them."""

    def __init__(self, secrets, problem=None):
        super().__init__()
        self.secrets, self.problem, self.patched = secrets, problem, []

    async def patch(self, _resource, name, body, **_):
        if self.problem is not None:
            raise self.problem
        self.patched.append(name)
        found = self.secrets[name]
        data = {**found["data"], **body.get("data", {})}
        found = {
            **found,
            "metadata": {**found["metadata"], "annotations": body["metadata"]["annotations"]},
            "data": {key: value for key, value in data.items() if value is not None},
        }
        self.secrets[name] = found
        return found


@pytest.fixture
def secrets():
    made = asyncio.run(
        pki_secrets.build_missing_authorities({}, FACTS, is_initialised=False, now=NOW)
    )
    for each in made:
        each["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    return {each["metadata"]["name"]: each for each in made}


def cluster(*names):
    stamp = NOW.isoformat()
    annotations = {f"{wellknown.ROTATE_PREFIX}{name}": stamp for name in names}
    return {"metadata": {"name": "vc-1", "namespace": "default", "annotations": annotations}}


async def advance(store, body, now=NOW):
    means = replace(fake_means(store), now=lambda: now)
    issued = IssuedCertificates(agents=None, secrets=store.secrets)
    return means, *await authority_rotation.advance_rotations(means, wish(), issued, body)


async def test_only_requested_authorities_move_and_each_with_one_write(secrets):
    store = Store(secrets)
    _, issued, rotations = await advance(store, cluster("etcd", "service-account"))
    assert store.patched == ["etcd-authority", "serviceaccount-rsa"]
    assert [row.authority for row in rotations.list_rows()] == ["etcd", "service-account"]
    assert "stage trust-both" in rotations.describe()
    state, _ = rotated_secrets.read_rotation("etcd", issued.secrets["etcd-authority"])
    assert state.stage == "trust-both"


async def test_without_a_request_nothing_is_written(secrets):
    store = Store(secrets)
    _, _, rotations = await advance(store, cluster())
    assert (store.patched, rotations.list_rows(), rotations.describe()) == ([], [], "")
    assert rotations.compute_next(NOW + timedelta(days=1), NOW) == NOW + timedelta(days=1)


async def test_a_secret_that_changed_meanwhile_is_read_again(secrets):
    store = Store(secrets, errors.Conflict("other version"))
    with pytest.raises(PhaseBlocked) as held:
        await advance(store, cluster("etcd"))
    assert not held.value.needs_admin


async def test_a_broken_rotation_is_named(secrets):
    found = secrets["etcd-authority"]["metadata"]
    found["annotations"] = {wellknown.AUTHORITY_ROTATION: "{"}
    with pytest.raises(PhaseBlocked, match="etcd-authority") as held:
        await advance(Store(secrets), cluster())
    assert held.value.needs_admin


def workload(updated):
    return {
        "metadata": {"name": "etcd", "generation": 2},
        "spec": {"replicas": 1},
        "status": {
            "observedGeneration": 2,
            "replicas": 1,
            "updatedReplicas": updated,
            "readyReplicas": 1,
        },
    }


@pytest.mark.parametrize(
    ("is_unchanged", "updated", "is_settled"),
    [(True, 1, True), (False, 1, False), (True, 0, False)],
)
async def test_a_stage_is_settled_when_nothing_was_written_and_all_pods_are_new(
    secrets, is_unchanged, updated, is_settled
):
    store = Store(secrets)
    means, issued, rotations = await advance(store, cluster("etcd"))
    observed = replace(EMPTY, objects={"StatefulSet": {"etcd": workload(updated)}})
    objects = SimpleNamespace(is_unchanged=is_unchanged)
    after = await authority_rotation.settle_rotations(means, rotations, issued, objects, observed)
    assert (after.states["etcd"].settled is not None) == is_settled
    due = after.compute_next(NOW + timedelta(days=1), NOW)
    wait = rotation.WAITS["etcd"].trust if is_settled else timedelta(seconds=10)
    assert due == NOW + wait
    # The next reconcile moves on from what was stored.
    _, _, later = await advance(store, cluster("etcd"), NOW + timedelta(hours=1))
    assert later.states["etcd"].stage == ("issue-new" if is_settled else "trust-both")
