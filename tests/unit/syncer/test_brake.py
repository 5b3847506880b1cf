"""The verdict on a store, and the order in which a delete is proved."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio import errors
from kubeio.store import Entry, parse
from kubeio.worker import Wait
from syncer import brake
from syncer.brake import Brake, Record, Sight, judge, record_of, sentence
from syncer.decide import Grounds
from syncer.deletion import Deletions, Target
from syncer.expectations import Expectations
from syncer.keys import HOME, Key
from tenancy import conditions, marks, ownership
from tenancy.ownership import Tenant
from tenancy.resources import CONFIG_MAPS

TENANT = Tenant(name="vc", namespace="default", uid="vc-uid", root="default-abc123-vc")
STORE = "7b0a5f0e-0000-4000-8000-000000000001"
OTHER = "7b0a5f0e-0000-4000-8000-000000000002"
KNOWN = Record(uid=STORE, revision=100, epoch=3)


def sight(uid: str = STORE, revision: int = 120, epoch: int = 3, epoch_revision: int = 90) -> Sight:
    """Return what a store shows."""
    return Sight(uid=uid, revision=revision, epoch=epoch, epoch_revision=epoch_revision)


@pytest.mark.parametrize(
    ("record", "seen", "problem"),
    [
        (Record(), sight(), ""),
        (Record(), sight(uid="", epoch=0), ""),
        (KNOWN, sight(), ""),
        (KNOWN, sight(revision=100), ""),
        (KNOWN, sight(epoch=9), ""),
        (KNOWN, sight(uid=OTHER, revision=900, epoch=9), "another store"),
        (KNOWN, sight(uid=""), "another store"),
        (KNOWN, sight(revision=99), "older copy"),
        (KNOWN, sight(epoch=2), "older copy"),
        (KNOWN, sight(epoch=0), "holds no number"),
        (KNOWN, sight(epoch=3 + brake.MAX_LEAP), ""),
        (KNOWN, sight(epoch=4 + brake.MAX_LEAP), "which nobody counted up to"),
        (KNOWN, sight(epoch=0, epoch_revision=0), "virtual-cluster-store is missing"),
    ],
)
def test_any_of_the_three_marks_going_back_is_a_problem(record, seen, problem):
    found = judge(record, seen)
    assert problem in found
    assert bool(found) == bool(problem)


def test_the_sentence_names_store_and_remedy():
    said = sentence(judge(KNOWN, sight(uid=OTHER)), OTHER, "vc")
    assert conditions.named_store(said) == OTHER
    assert "kubectl vc confirm-deletes vc" in said


def test_what_a_person_is_told_is_whole():
    assert sentence(judge(KNOWN, sight(uid="")), "", "vc") == (
        "No deletes are carried down: the tenant's store has kube-system <none>, and it is another"
        " store than the one that was synced before. If this store is meant to stay, run `kubectl"
        " vc confirm-deletes vc`; whatever it lacks is then deleted in the super cluster."
        " Otherwise bring the old store back."
    )
    assert sentence(judge(KNOWN, sight(epoch=0, epoch_revision=0)), STORE, "vc") == (
        f"No deletes are carried down: in the tenant's store, kube-system {STORE}, ConfigMap"
        " kube-system/virtual-cluster-store is missing in it. Its kube-system is the one that was"
        " synced before and its revision did not go back, so most likely somebody changed just"
        " that; but a backup from before the ConfigMap was made looks the same. If nothing else is"
        " missing in the tenant, run `kubectl vc confirm-deletes vc`, which makes the mark anew;"
        " whatever the tenant lacks is then deleted in the super cluster."
    )


def test_the_longest_number_that_is_one_is_recorded():
    root = {"metadata": {"annotations": {marks.STORE_EPOCH: "1" * brake._MAX_DIGITS}}}
    assert record_of(root, STORE) == Record(uid=STORE, epoch=int("1" * brake._MAX_DIGITS))


def test_the_record_survives_without_annotations():
    root = {"metadata": {"uid": "r"}}
    assert record_of(root, STORE) == Record(uid=STORE)
    root["metadata"]["annotations"] = {
        marks.STORE_UID: OTHER,
        marks.STORE_REVISION: "7",
        marks.STORE_EPOCH: "2",
    }
    assert record_of(root, STORE) == Record(uid=OTHER, revision=7, epoch=2)


class Tenancy:
    """The two reads that tell a store, scripted; and a log of what was asked in which order."""

    def __init__(self, seen: Sight, log: list[str]) -> None:
        self.seen, self.log = seen, log
        self.objects: dict[str, str] = {}

    async def get(self, resource: Any, name: str, **_: Any) -> dict[str, Any]:
        if resource.kind == "Namespace":
            self.log.append("look")
            if not self.seen.uid:
                raise errors.NotFound("no kube-system")
            return {"metadata": {"uid": self.seen.uid}}
        self.log.append("tenant")
        if name not in self.objects:
            raise errors.NotFound("gone")
        return {"metadata": {"uid": self.objects[name]}}

    async def list(self, *_: Any, **__: Any) -> dict[str, Any]:
        items = []
        if self.seen.epoch:
            items = [
                {
                    "metadata": {"resourceVersion": str(self.seen.epoch_revision)},
                    "data": {brake.EPOCH: str(self.seen.epoch)},
                }
            ]
        return {"metadata": {"resourceVersion": str(self.seen.revision)}, "items": items}

    async def create(self, _: Any, body: dict[str, Any], **__: Any) -> dict[str, Any]:
        self.log.append(f"create epoch {body['data'][brake.EPOCH]}")
        return {"metadata": {"resourceVersion": "500"}}

    async def patch(self, *args: Any, **_: Any) -> dict[str, Any]:
        self.log.append(f"epoch {args[2]['data'][brake.EPOCH]}")
        return {"metadata": {"resourceVersion": "500"}}


class Below:
    """The super cluster's answers."""

    def __init__(self, root: dict[str, Any], log: list[str]) -> None:
        self.root, self.log = root, log
        self.live: dict[str, Any] = {}

    async def get(self, resource: Any, _: str, **__: Any) -> dict[str, Any]:
        if resource.kind == "Namespace":
            return self.root
        self.log.append("super")
        if not self.live:
            raise errors.NotFound("gone")
        return self.live

    async def patch(self, *args: Any, **_: Any) -> dict[str, Any]:
        annotations = args[2]["metadata"]["annotations"]
        self.log.append(f"mirror {annotations[marks.STORE_EPOCH]}")
        return {}

    async def delete(self, *_: Any, **options: Any) -> dict[str, Any]:
        self.log.append(f"delete {options['uid']} {options['resource_version']}".strip())
        return {"kind": "Status"}


def root_namespace(record: Record) -> dict[str, Any]:
    """Return a root namespace that remembers a store."""
    annotations = {
        marks.STORE_UID: record.uid,
        marks.STORE_REVISION: str(record.revision),
        marks.STORE_EPOCH: str(record.epoch),
    }
    metadata = {"uid": "root-uid", "resourceVersion": "7"}
    return {"metadata": {**metadata, "annotations": annotations if record.uid else {}}}


def watched(
    record: Record, seen: Sight, revision: int = 0, revisions: list[int] | None = None
) -> tuple[Brake, Tenancy, Below, list]:
    """Return a brake between two scripted clusters; the last of `revisions` is what was seen."""
    log: list[str] = []
    tenant, below = Tenancy(seen, log), Below(root_namespace(record), log)
    found = Brake(
        tenant=TENANT,
        tenant_client=tenant,
        super_client=below,
        revision=lambda: revisions[-1] if revisions else revision,
        judged=lambda: log.append("judged"),
    )
    return found, tenant, below, log


async def test_the_first_engagement_marks_the_store():
    found, _, _, log = watched(Record(), sight(epoch=0, epoch_revision=0))
    await found.engage(twin_uid="", stamps=(0,))
    assert log == ["look", "look", "create epoch 1", "mirror 1"]
    assert not found.is_held


async def test_a_restart_with_nothing_new_writes_nothing():
    found, _, _, log = watched(KNOWN, sight())
    await found.engage(twin_uid=STORE, stamps=(80,))
    assert log == ["look"]
    assert not found.is_count_due


async def test_something_newer_than_the_mark_makes_a_count_due():
    found, _, _, log = watched(KNOWN, sight())
    await found.engage(twin_uid=STORE, stamps=(95,))
    assert found.is_count_due
    await found.count_up()
    assert log[-2:] == ["epoch 4", "mirror 4"]
    assert not found.is_count_due
    found.wrote("499")
    assert not found.is_count_due
    found.wrote("501")
    assert found.is_count_due


async def test_what_came_down_at_the_stores_very_revision_is_not_counted_yet():
    found, _, _, _ = watched(KNOWN, sight(revision=120))
    await found.engage(twin_uid=STORE, stamps=(120,))
    assert found.is_count_due


async def test_a_tenant_without_anything_below_is_engaged_as_well():
    found, _, _, log = watched(KNOWN, sight())
    await found.engage(twin_uid=STORE, stamps=())
    assert not found.is_count_due
    assert log == ["look"]


async def test_a_tenant_without_a_kube_system_is_waited_for():
    found, _, _, log = watched(Record(), sight(uid="", epoch=0, epoch_revision=0))
    with pytest.raises(Wait, match=r"^the tenant has no kube-system yet$"):
        await found.engage(twin_uid="", stamps=())
    assert log == ["look"]


async def test_the_super_namespace_of_kube_system_remembers_a_store_as_well():
    found, _, _, _ = watched(Record(), sight(uid=OTHER))
    await found.engage(twin_uid=STORE, stamps=())
    assert "another store" in found.problem


async def test_an_epoch_as_far_ahead_as_may_be_is_counted_on():
    found, _, _, log = watched(KNOWN, sight(epoch=3 + brake.MAX_LEAP))
    await found.engage(twin_uid=STORE, stamps=(95,))
    await found.count_up()
    assert log[-1] == f"mirror {4 + brake.MAX_LEAP}"


async def test_stamps_of_an_earlier_store_make_no_count_due():
    found, _, _, _ = watched(KNOWN, sight())
    await found.engage(twin_uid=STORE, stamps=(80, 90000))
    assert not found.is_count_due


async def test_a_count_whose_mirror_was_lost_is_only_mirrored():
    found, _, _, log = watched(KNOWN, sight(epoch=4))
    await found.engage(twin_uid=STORE, stamps=(0,))
    assert found.is_count_due
    await found.count_up()
    assert log[-1] == "mirror 4"
    assert not any(entry.startswith("epoch") for entry in log)


async def test_the_watches_remember_a_higher_revision():
    found, _, _, log = watched(KNOWN, sight(revision=120), revision=130)
    await found.engage(twin_uid=STORE, stamps=(0,))
    assert found.is_held
    assert "judged" in log
    held = r"^deletes are held: the tenant's store is not the one we know$"
    with pytest.raises(Wait, match=held):
        found.check()
    with pytest.raises(Wait, match=held):
        await found.verify(0.0)
    assert not found.is_count_due


@pytest.mark.parametrize("is_new", [False, True])
async def test_the_revisions_of_a_bumped_backup_do_not_count_against_the_old_store(is_new: bool):
    """Nobody who has seen the one would ever know the other again."""
    revisions = [130]
    found, tenant, _, _ = watched(KNOWN, sight(revision=130), revisions=revisions)
    if not is_new:
        await found.engage(twin_uid=STORE, stamps=(0,))
    tenant.seen = sight(revision=10**9, epoch=2)
    revisions.append(10**9)
    if is_new:
        await found.engage(twin_uid=STORE, stamps=(0,))
    await found.look()
    assert found.is_held
    revisions.append(10**9 + 5)
    tenant.seen = sight(revision=131)
    await found.look()
    assert not found.is_held
    # Its watches have still seen the other one, until the session begins anew.
    found.wrote(str(10**9))
    await found.count_up()
    assert not found.is_held
    tenant.seen = sight(revision=501, epoch=4, epoch_revision=500)
    await found.look()
    assert not found.is_held


async def test_what_the_watches_saw_of_the_old_store_counts_after_it_went_back():
    revisions = [130]
    found, tenant, _, _ = watched(KNOWN, sight(revision=130), revisions=revisions)
    await found.engage(twin_uid=STORE, stamps=(0,))
    revisions.append(200)
    for _ in range(3):
        tenant.seen = sight(revision=150)
        await found.look()
        assert found.is_held
    tenant.seen = sight(revision=10**9, epoch=2)
    await found.look()
    tenant.seen = sight(revision=199)
    await found.look()
    assert found.is_held
    tenant.seen = sight(revision=200)
    await found.look()
    assert not found.is_held


async def test_only_the_store_that_was_named_is_confirmed():
    found, _, _, log = watched(KNOWN, sight(uid=OTHER, revision=7, epoch=0, epoch_revision=0))
    await found.engage(twin_uid=STORE, stamps=(0,))
    assert found.is_held
    assert not await found.confirm(STORE)
    assert found.is_held
    assert await found.confirm(OTHER)
    assert not found.is_held
    assert log[-2:] == ["create epoch 4", "mirror 4"]


async def test_a_confirmation_of_an_intact_store_does_nothing():
    found, _, _, _ = watched(KNOWN, sight())
    await found.engage(twin_uid=STORE, stamps=(0,))
    assert not await found.confirm(STORE)


@pytest.mark.parametrize("epoch", ["\u00b2", "9" * 5000, "x"])
async def test_an_epoch_that_is_no_number_is_none(epoch):
    found, _, _, _ = watched(KNOWN, sight(epoch=epoch))
    await found.engage(twin_uid=STORE, stamps=(0,))
    assert "holds no number" in found.problem
    root = {"metadata": {"annotations": {marks.STORE_EPOCH: epoch}}}
    assert record_of(root, STORE) == Record(uid=STORE)


async def test_an_epoch_that_nobody_counted_up_to_is_said_and_mended_by_a_confirmation():
    """Taken for ours it would be counted on, until it is no number any more: held for ever."""
    found, tenant, _, log = watched(KNOWN, sight(epoch=9_999_999_999_999_999_999))
    await found.engage(twin_uid=STORE, stamps=(95,))
    assert found.is_held
    assert "key epoch of ConfigMap kube-system/virtual-cluster-store" in found.message
    assert "9999999999999999999" in found.message
    assert "kubectl vc confirm-deletes vc" in found.message
    assert await found.confirm(STORE)
    assert log[-2:] == ["epoch 4", "mirror 4"]
    tenant.seen = sight(revision=501, epoch=4, epoch_revision=500)
    await found.look()
    assert not found.is_held


async def test_an_epoch_written_before_the_first_engagement_is_none_of_ours():
    found, _, _, log = watched(Record(), sight(epoch=9_999_999_999_999_999_999))
    await found.engage(twin_uid="", stamps=(0,))
    assert not found.is_held
    assert log[-2:] == ["epoch 1", "mirror 1"]


def test_a_record_that_was_never_counted_is_none():
    root = {"metadata": {"annotations": {marks.STORE_EPOCH: "9999999999999999999"}}}
    assert record_of(root, STORE) == Record(uid=STORE)


async def test_another_store_behind_the_same_address_is_noticed_for_good():
    found, tenant, _, _ = watched(KNOWN, sight())
    await found.engage(twin_uid=STORE, stamps=(0,))
    assert not found.is_replaced
    tenant.seen = sight(revision=121)
    await found.look()
    assert not found.is_replaced
    tenant.seen = sight(uid=OTHER, revision=900, epoch=9)
    await found.look()
    assert found.is_replaced
    await found.look()
    assert found.is_replaced


KEY = Key(TENANT.uid, HOME, "ConfigMap", "web", "c")


def twin(uid: str = "c-uid") -> Entry:
    """Return a super object that records a tenant object."""
    import orjson  # noqa: PLC0415 - only here

    return parse(orjson.dumps({"kind": "ConfigMap", "metadata": twin_metadata(uid)}))


def twin_metadata(uid: str = "c-uid") -> dict[str, Any]:
    """Return the metadata of a twin as its API hands it out."""
    return {
        "name": "c",
        "namespace": "below",
        "uid": "below-uid",
        "resourceVersion": "55",
        "annotations": ownership.annotations(TENANT, "web", uid),
    }


async def deleting(seen: Sight | None = None) -> tuple[Deletions, Tenancy, Below, list[str]]:
    """Return deletions of an engaged tenant."""
    found, tenant, below, log = watched(KNOWN, seen or sight())
    await found.engage(twin_uid=STORE, stamps=(0,))
    below.live = {"metadata": twin_metadata()}
    log.clear()
    deletions = Deletions(
        brake=found, tenant_client=tenant, super_client=below, expectations=Expectations()
    )
    return deletions, tenant, below, log


def target(grounds: Grounds, **options: Any) -> Target:
    """Return a ConfigMap's twin to be deleted."""
    return Target(key=KEY, resource=CONFIG_MAPS, entry=twin(), grounds=grounds, **options)


async def test_absence_is_proved_live_on_both_sides_and_the_store_after_it():
    """REL-05, REL-06."""
    deletions, _, _, log = await deleting()
    await deletions.delete(target(Grounds.ABSENT))
    assert log == ["tenant", "look", "super", "delete below-uid 55"]


async def test_a_look_before_the_tenants_answer_proves_nothing():
    deletions, tenant, _, log = await deleting()
    answer = tenant.get

    async def while_another_key_looks(resource: Any, name: str, **options: Any) -> dict[str, Any]:
        if resource is CONFIG_MAPS:
            tenant.get = answer  # type: ignore[method-assign]
            await deletions._brake.look()
        return await answer(resource, name, **options)

    tenant.get = while_another_key_looks  # type: ignore[method-assign]
    await deletions.delete(target(Grounds.ABSENT))
    assert log == ["look", "tenant", "look", "super", "delete below-uid 55"]


async def test_an_end_that_was_seen_needs_its_uid_only():
    deletions, _, _, log = await deleting()
    deletions.saw_gone(KEY, "c-uid")
    await deletions.delete(target(Grounds.ABSENT))
    assert log == ["delete below-uid"]


async def test_the_end_of_another_object_of_the_name_proves_nothing():
    """REL-09."""
    deletions, _, _, log = await deleting()
    deletions.saw_gone(KEY, "another-uid")
    await deletions.delete(target(Grounds.ABSENT))
    assert "tenant" in log


async def test_a_mark_on_the_living_object_needs_its_uid_only():
    deletions, _, _, log = await deleting()
    await deletions.delete(target(Grounds.MARKED))
    assert log == ["delete below-uid"]


async def test_an_object_that_lives_after_all_is_not_deleted():
    """REL-06, REL-10: the cache was behind."""
    deletions, tenant, _, log = await deleting()
    tenant.objects["c"] = "c-uid"
    behind = r"^the tenant object lives, the cache is behind$"
    with pytest.raises(Wait, match=behind) as waited:
        await deletions.delete(target(Grounds.ABSENT))
    assert waited.value.after == 1.0
    assert log == ["tenant"]


async def test_what_its_watch_leaves_out_counts_as_gone():
    deletions, tenant, _, log = await deleting()
    tenant.objects["c"] = "c-uid"
    seen: list[Any] = []

    def is_hidden(metadata: Any) -> bool:
        seen.append(metadata)
        return True

    await deletions.delete(target(Grounds.ABSENT, is_hidden=is_hidden))
    assert seen == [{"uid": "c-uid"}]
    assert log[-1] == "delete below-uid 55"


async def test_a_successor_of_the_name_is_no_reason_to_keep_the_twin():
    deletions, tenant, _, log = await deleting()
    tenant.objects["c"] = "new-uid"
    await deletions.delete(target(Grounds.SUCCEEDED))
    assert log[-1] == "delete below-uid 55"


async def test_a_store_that_changed_meanwhile_holds_the_delete():
    deletions, tenant, _, log = await deleting()
    tenant.seen = sight(uid=OTHER)
    with pytest.raises(Wait):
        await deletions.delete(target(Grounds.ABSENT))
    assert not any(entry.startswith("delete") for entry in log)
    # From then on not even a mark or an end that was seen is enough.
    deletions.saw_gone(KEY, "c-uid")
    for grounds in (Grounds.MARKED, Grounds.ABSENT, Grounds.UNWANTED):
        with pytest.raises(Wait):
            await deletions.delete(target(grounds))
    assert not any(entry.startswith("delete") for entry in log)


async def test_what_no_pod_needs_goes_only_from_an_intact_store():
    deletions, tenant, _, log = await deleting()
    await deletions.delete(target(Grounds.UNWANTED))
    assert log == ["look", "super", "delete below-uid 55"]
    tenant.seen = sight(revision=1)
    log.clear()
    with pytest.raises(Wait):
        await deletions.delete(target(Grounds.UNWANTED, has_tenant_twin=False))
    assert not any(entry.startswith("delete") for entry in log)


@pytest.mark.parametrize(
    "live",
    [
        {**twin_metadata(), "uid": "another"},
        {**twin_metadata(), "annotations": {}},
        {**twin_metadata(), "annotations": ownership.annotations(TENANT, "web", "other")},
    ],
)
async def test_a_super_object_that_is_another_one_by_now_is_left_alone(live):
    deletions, _, below, log = await deleting()
    below.live = {"metadata": live}
    other = r"^the super object is another one now, the cache is behind$"
    with pytest.raises(Wait, match=other) as waited:
        await deletions.delete(target(Grounds.ABSENT))
    assert waited.value.after == 1.0
    assert not any(entry.startswith("delete") for entry in log)


async def test_what_is_gone_already_is_done():
    deletions, _, below, log = await deleting()
    below.live = {}
    await deletions.delete(target(Grounds.ABSENT))
    assert log == ["tenant", "look", "super"]
