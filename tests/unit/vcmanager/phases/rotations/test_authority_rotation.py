"""A move is one patch of one Secret, and a stage is settled only by a reconcile without writes."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from kubeio import errors
from tenancy import wellknown
from tests.support.vcmanager.factories import FACTS, NOW, RecordingClient, fake_means, wish
from vcmanager.phases.certificates import IssuedCertificates
from vcmanager.phases.rotations import authority_rotation
from vcmanager.pki import authority, bundles, inventory, rotated_secrets, rotation
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


async def advance(store, body, now=NOW, signed_lifetime=timedelta(0)):
    means = replace(fake_means(store), now=lambda: now)
    issued = IssuedCertificates(agents=None, secrets=store.secrets)
    return means, *await authority_rotation.advance_rotations(
        means, wish(), issued, body, signed_lifetime=signed_lifetime
    )


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


async def settled_at_issue_new(secrets, name):
    """Bring one authority to the settled stage issue-new, and return the store and that time."""
    store, now = Store(secrets), NOW
    for _ in range(2):
        means, issued, rotations = await advance(store, cluster(name), now)
        await authority_rotation.settle_rotations(means, rotations, issued, UNCHANGED, ROLLED_OUT)
        now += timedelta(hours=25)
    means, issued, rotations = await advance(store, cluster(name), now)
    await authority_rotation.settle_rotations(means, rotations, issued, UNCHANGED, ROLLED_OUT)
    return store, now


UNCHANGED = SimpleNamespace(is_unchanged=True)
ROLLED_OUT = replace(EMPTY, objects={"StatefulSet": {"etcd": workload(1)}})


async def test_a_token_secret_of_the_old_key_holds_the_drop_until_it_is_deleted(secrets):
    """REL-164."""
    store, now = await settled_at_issue_new(secrets, "service-account")
    tenant = RecordingClient()
    tenant.listed = [
        {
            "metadata": {
                "namespace": "web",
                "name": "ci",
                "creationTimestamp": "2020-01-01T00:00:00Z",
            }
        }
    ]
    now += timedelta(hours=25)
    for _ in range(2):
        means, issued, rotations = await advance(store, cluster("service-account"), now)
        after = await authority_rotation.settle_rotations(
            means, rotations, issued, UNCHANGED, ROLLED_OUT, tenant_client=tenant
        )
        assert after.states["service-account"].stage == "issue-new"
        assert "web/ci (never seen in use)" in after.describe()
        stored, _ = rotated_secrets.read_rotation(
            "service-account", store.secrets["serviceaccount-rsa"]
        )
        assert after.list_rows()[0].held == stored.held
    # The next reconcile shows it before it counts again, and writes it once.
    store.patched.clear()
    _, _, rotations = await advance(store, cluster("service-account"), now)
    assert "web/ci" in rotations.describe()
    await authority_rotation.settle_rotations(
        means, rotations, issued, UNCHANGED, ROLLED_OUT, tenant_client=tenant
    )
    assert store.patched == []
    assert after.compute_next(now + timedelta(days=9), now) == now + timedelta(minutes=10)
    tenant.listed = []
    await authority_rotation.settle_rotations(
        means, rotations, issued, UNCHANGED, ROLLED_OUT, tenant_client=tenant
    )
    _, _, rotations = await advance(store, cluster("service-account"), now)
    assert rotations.states["service-account"].stage == "stable"


async def test_an_unreachable_tenant_holds_the_drop(secrets):
    store, now = await settled_at_issue_new(secrets, "service-account")
    means, issued, rotations = await advance(
        store, cluster("service-account"), now + timedelta(hours=25)
    )
    after = await authority_rotation.settle_rotations(
        means, rotations, issued, UNCHANGED, ROLLED_OUT, tenant_client=None
    )
    assert "is not ready" in after.describe()
    assert after.states["service-account"].cleared is None


async def test_the_end_of_the_handed_out_kubeconfig_is_recorded_when_the_new_authority_issues(
    secrets,
):
    """REL-164."""
    store = Store(secrets)
    end = NOW + timedelta(days=365)
    login = authority.make_leaf(
        bundles.read_key_pair(secrets["client-authority"]),
        inventory.list_logins(FACTS)[0].subject,
        lifetime=timedelta(days=365),
        now=NOW,
    )
    document = bundles.build_kubeconfig(
        login,
        cluster="a",
        user="admin",
        server="https://a",
        server_name="",
        authority=bundles.read_key_pair(secrets["root-ca"]).certificate,
    )
    secrets["admin-kubeconfig"] = bundles.build_kubeconfig_secret(
        "admin-kubeconfig", FACTS.root, "admin", document
    )
    means, issued, rotations = await advance(store, cluster("client"))
    await authority_rotation.settle_rotations(means, rotations, issued, UNCHANGED, ROLLED_OUT)
    _, _, rotations = await advance(store, cluster("client"), NOW + timedelta(hours=1))
    state = rotations.states["client"]
    assert state.stage == "issue-new"
    assert abs(state.signed_until - end) < timedelta(minutes=10)
    stored, _ = rotated_secrets.read_rotation("client", store.secrets["client-authority"])
    assert stored == state


async def test_an_ended_authority_is_replaced_with_one_write(secrets):
    ended = authority.make_authority("etcd", now=NOW - timedelta(days=4000))
    secrets["etcd-authority"]["data"] = bundles.build_key_pair_secret("x", "y", ended)["data"]
    store = Store(secrets)
    await advance(store, cluster())
    assert store.patched == []
    means, issued, rotations = await advance(store, cluster("etcd"))
    state, keys = rotated_secrets.read_rotation("etcd", issued.secrets["etcd-authority"])
    assert (state.stage, keys.other) == ("stable", None)
    assert keys.current.certificate != ended.certificate
    assert rotations.list_rows() == []
    assert means.recorder.messages == [
        "The authority etcd had ended. vc-manager replaced it in one step."
    ]
    await advance(store, cluster("etcd"))
    assert store.patched == ["etcd-authority"]


async def test_the_old_client_authority_is_kept_as_long_as_its_signer_may_have_signed(secrets):
    """REL-164: a ClusterVersion may have a longer --cluster-signing-duration."""
    store = Store(secrets)
    means, issued, rotations = await advance(store, cluster("client"))
    await authority_rotation.settle_rotations(means, rotations, issued, UNCHANGED, ROLLED_OUT)
    now = NOW + timedelta(hours=1)
    means, issued, _ = await advance(store, cluster("client"), now, timedelta(days=300))
    state, _ = rotated_secrets.read_rotation("client", issued.secrets["client-authority"])
    assert (state.stage, state.signed_until) == (
        "issue-new",
        now + timedelta(days=300, minutes=5),
    )
