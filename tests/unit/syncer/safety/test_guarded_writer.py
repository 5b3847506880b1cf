"""The guarded writer: which guards record a write, and in which order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import orjson
import pytest

from kubeio import errors
from kubeio.cache.store import Entry, parse_entry
from kubeio.controller.worker import NotReadyYet
from syncer.model.keys import HOME, Key
from syncer.safety.expectations import ClusterSide
from syncer.safety.guarded_writer import GuardedWriter
from syncer.safety.hot_loop_guard import REPEATS_TO_PARK, HotLoopGuard, WriteScope
from syncer.safety.parked_differences import (
    SUPER_SIDE,
    SYNC_PARKED,
    TENANT_SIDE,
    ParkedDifferences,
)
from tenancy import wellknown
from tenancy.resources import PODS, SERVICES
from tests.support.syncer.writers import RecordedReasons

KEY = Key("vc-uid", HOME, "Pod", "web", "p")
TENANT, SUPER = WriteScope(KEY, TENANT_SIDE), WriteScope(KEY, SUPER_SIDE)
STATUS = WriteScope(KEY, SUPER_SIDE, "status")
LIVE = {"metadata": {"name": "p", "namespace": "below"}, "spec": {"x": 1}}
WIDE = {"metadata": {"name": "p"}, "spec": {"x": 1}}
"""A twin without a namespace."""
ENTRY = parse_entry(
    orjson.dumps(
        {"metadata": {"name": "p", "namespace": "web", "uid": "u", "resourceVersion": "5"}}
    )
)


def body() -> dict[str, Any]:
    return {"metadata": {"name": "p", "namespace": "below"}, "spec": {"x": 2}}


class Recording:
    """A client or a guard that records the calls of its methods in one log."""

    def __init__(self, name: str, log: list[str], **answers: Any) -> None:
        self.name, self.log, self.answers = name, log, answers
        self.last: dict[str, Any] = {}

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if method not in ("has_history", "is_parked"):
                self.log.append(f"{self.name}.{method}")
                self.last = {"args": args, **options}
            return self.answers.get(method)

        return call


class RecordingClient(Recording):
    """A client whose writes are recorded."""

    def __getattr__(self, method: str) -> Callable[..., Any]:
        async def call(*args: Any, **options: Any) -> Any:
            self.log.append(f"{self.name}.{method}")
            self.last = {"args": args, **options}
            if isinstance(self.answers.get(method), Exception):
                raise self.answers[method]
            if method in self.answers:
                return self.answers[method]
            return {**body(), "metadata": {**body()["metadata"], "resourceVersion": "9"}}

        return call


class RecordingQuota:
    """A quota accountant that records what it charges, and the answer."""

    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.charged: tuple[Any, ...] = ()
        self.settled: Any = None

    @contextmanager
    def charge(self, *args: Any) -> Iterator[Any]:
        self.log.append("quota.charge")
        self.charged = deepcopy(args)
        yield self

    def settle(self, written: Any) -> None:
        self.log.append("quota.settle")
        self.settled = written


class EmptyBucket:
    """A rate limiter that records what it refuses."""

    def take(self, count: int) -> None:
        self.taken = count
        raise NotReadyYet("wait")


class RecordingParked(RecordingClient):
    """Parked differences of which none is parked."""

    asked: tuple[Any, ...] = ()

    def has(self, *args: Any) -> bool:
        self.asked = deepcopy(args)
        return False


class World:
    """A writer whose guards share one log."""

    def __init__(self, *, is_parked: bool = False, **answers: Any) -> None:
        self.log: list[str] = []
        self.tenant = RecordingClient("tenant", self.log, **answers)
        self.super = RecordingClient("super", self.log, **answers)
        self.expectations = Recording("expectations", self.log)
        self.guard = Recording(
            "guard", self.log, has_history=is_parked, is_parked=is_parked, count_attempt=False
        )
        self.store = Recording("store", self.log)
        self.events = RecordedReasons()
        self.writer = self.made(self.guard)

    def made(
        self, guard: Any, *, parked: Any = None, quota: Any = None, write_tokens: Any = None
    ) -> GuardedWriter:
        default = ParkedDifferences(guard, self.events, lambda: self.log.append("status"))
        return GuardedWriter(
            tenant_client=self.tenant,  # type: ignore[arg-type]
            super_client=self.super,  # type: ignore[arg-type]
            expectations=self.expectations,  # type: ignore[arg-type]
            hot_loop_guard=guard,
            store_guard=self.store,  # type: ignore[arg-type]
            parked=parked or default,
            quota=quota,
            write_tokens=write_tokens,
            on_twin_written=lambda: self.log.append("epoch"),
        )


Write = Callable[[GuardedWriter], Awaitable[Any]]
EXPECTED, COUNTED = "expectations.expect_update", "guard.count_write"
DELETED, ATTEMPT = "expectations.expect_delete", "guard.count_attempt"
TWIN = [EXPECTED, COUNTED, "store.record_write", "epoch"]

PARKABLE: dict[str, tuple[Write, list[str]]] = {
    "merge a twin": (
        lambda w: w.update_twin(SUPER, PODS, body(), before=LIVE, tenant_x=ENTRY, kind="merge"),
        ["super.patch", *TWIN, ATTEMPT],
    ),
    "replace a twin": (
        lambda w: w.update_twin(SUPER, PODS, body(), before=LIVE, tenant_x=ENTRY, kind=None),
        ["super.replace", *TWIN, ATTEMPT],
    ),
    "update a super object": (
        lambda w: w.update_super_object(SUPER, PODS, body(), before=LIVE),
        ["super.replace", EXPECTED, ATTEMPT],
    ),
    "patch a super object": (
        lambda w: w.patch_super_object(SUPER, PODS, body(), before=LIVE, tenant_x=ENTRY),
        ["super.patch", EXPECTED, COUNTED, ATTEMPT],
    ),
    "replace in the tenant": (
        lambda w: w.replace_tenant_object(TENANT, PODS, body(), before=LIVE, tenant_x=ENTRY),
        ["tenant.replace", EXPECTED, COUNTED, ATTEMPT],
    ),
    "patch in the tenant": (
        lambda w: w.patch_tenant_object(TENANT, PODS, body(), before=LIVE, tenant_x=ENTRY),
        ["tenant.patch", EXPECTED, COUNTED, ATTEMPT],
    ),
    "apply in the tenant": (
        lambda w: w.apply_tenant_object(TENANT, PODS, body(), ENTRY),
        ["tenant.apply", EXPECTED, COUNTED, ATTEMPT],
    ),
}
OTHER: dict[str, tuple[Write, list[str]]] = {
    "merge a twin of the cluster": (
        lambda w: w.update_twin(SUPER, PODS, body(), before=WIDE, tenant_x=ENTRY, kind="merge"),
        ["super.patch", *TWIN, ATTEMPT],
    ),
    "create a twin": (lambda w: w.create_twin(KEY, PODS, body(), ENTRY), ["super.create", *TWIN]),
    "create a super object": (
        lambda w: w.create_super_object(KEY, PODS, body()),
        ["super.create", EXPECTED, COUNTED],
    ),
    "create a part": (
        lambda w: w.create_super_object(KEY, PODS, body(), is_part=True),
        ["super.create", COUNTED],
    ),
    "replace a super object": (
        lambda w: w.replace_super_object(KEY, PODS, body()),
        ["super.replace", EXPECTED, COUNTED],
    ),
    "patch a part": (lambda w: w.patch_super_part(KEY, PODS, body()), ["super.patch", COUNTED]),
    "restore labels": (
        lambda w: w.restore_labels(PODS, body(), name="p", namespace="below"),
        ["super.patch"],
    ),
    "restore labels of a whole object": (
        lambda w: w.restore_labels(PODS, body(), is_whole=True),
        ["super.replace"],
    ),
    "delete a super object": (
        lambda w: w.delete_super_object(KEY, PODS, ENTRY),
        ["super.delete", DELETED],
    ),
    "delete a super object, counted": (
        lambda w: w.delete_super_object(KEY, PODS, ENTRY, is_counted=True),
        ["super.delete", DELETED, COUNTED],
    ),
    "create in the tenant": (
        lambda w: w.create_tenant_object(KEY, PODS, body()),
        ["tenant.create", EXPECTED, COUNTED],
    ),
    "patch in the tenant without an object": (
        lambda w: w.patch_tenant_object(TENANT, PODS, body()),
        ["tenant.patch", EXPECTED, COUNTED],
    ),
    "apply a new object in the tenant": (
        lambda w: w.apply_tenant_object(TENANT, PODS, body(), None),
        ["tenant.apply", EXPECTED, COUNTED],
    ),
    "delete in the tenant": (
        lambda w: w.delete_tenant_object(KEY, PODS, ENTRY),
        ["tenant.delete", DELETED, COUNTED],
    ),
    "delete in the tenant, not counted": (
        lambda w: w.delete_tenant_object(KEY, PODS, ENTRY, is_counted=False),
        ["tenant.delete", DELETED],
    ),
    "bind": (
        lambda w: w.bind_pod(KEY, PODS, body(), ENTRY),
        ["tenant.create", "expectations.expect_any_update"],
    ),
    "create unguarded": (lambda w: w.create_unguarded(PODS, body()), ["tenant.create"]),
    "patch unguarded": (
        lambda w: w.patch_unguarded(PODS, "p", body(), namespace="web"),
        ["tenant.patch"],
    ),
    "apply unguarded": (lambda w: w.apply_unguarded(PODS, body()), ["tenant.apply"]),
}
MANAGER = {"field_manager": wellknown.SYNCER}
STAMPED = body()
STAMPED["metadata"]["annotations"] = {wellknown.STORE_REVISION: "5"}
IN_SUPER, IN_TENANT = {"namespace": "below", **MANAGER}, {"namespace": "web", **MANAGER}
WHOLE = {"subresource": ""}
DELETE = {"namespace": "web", "uid": "u", "grace_seconds": None}
SUPER_DELETE = {**DELETE, "resource_version": "", "propagation": "Background"}
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
REQUESTS: dict[str, Arguments] = {
    "merge a twin": (("p", STAMPED), {"kind": "merge", **IN_SUPER, **WHOLE}),
    "replace a twin": ((STAMPED,), MANAGER),
    "update a super object": ((body(),), MANAGER),
    "patch a super object": (("p", body()), MANAGER),
    "replace in the tenant": ((body(),), MANAGER),
    "patch in the tenant": (("p", body()), {**IN_TENANT, **WHOLE}),
    "apply in the tenant": ((body(),), {**MANAGER, **WHOLE}),
    "merge a twin of the cluster": (
        ("p", STAMPED),
        {"kind": "merge", "namespace": "", **MANAGER, **WHOLE},
    ),
    "create a twin": ((STAMPED,), MANAGER),
    "create a super object": ((body(),), MANAGER),
    "create a part": ((body(),), MANAGER),
    "replace a super object": ((body(),), MANAGER),
    "patch a part": (("p", body()), IN_SUPER),
    "restore labels": (("p", body()), IN_SUPER),
    "restore labels of a whole object": ((body(),), MANAGER),
    "delete a super object": (("p",), SUPER_DELETE),
    "delete a super object, counted": (("p",), SUPER_DELETE),
    "create in the tenant": ((body(),), MANAGER),
    "patch in the tenant without an object": (("p", body()), {**IN_TENANT, **WHOLE}),
    "apply a new object in the tenant": ((body(),), {**MANAGER, **WHOLE}),
    "delete in the tenant": (("p",), DELETE),
    "delete in the tenant, not counted": (("p",), DELETE),
    "bind": ((body(),), {"name": "p", "subresource": "binding", **MANAGER}),
    "create unguarded": ((body(),), {"name": "", "namespace": "", **MANAGER, **WHOLE}),
    "patch unguarded": (("p", body()), {**IN_TENANT, **WHOLE}),
    "apply unguarded": ((body(),), MANAGER),
}
"""Arguments of each request, after the resource."""
WAKE_NOTHING = {
    "patch in the tenant",
    "create a twin",
    "delete a super object",
    "delete a super object, counted",
    "bind",
}
"""Writes whose event needs no work."""
CHARGES: dict[str, dict[str, Any] | None] = {
    "merge a twin": None,
    "replace a twin": STAMPED,
    "update a super object": body(),
    "create a twin": STAMPED,
    "create a super object": body(),
    "create a part": body(),
    "replace a super object": body(),
}
"""Objects that are charged to the quota. None: the patch changes nothing that is counted."""
ALL = {**PARKABLE, **OTHER}


@pytest.mark.parametrize("name", ALL)
async def test_each_write_is_sent_and_recorded_with_its_arguments(name):
    world = World()
    write, log = ALL[name]
    answer = await write(world.writer)
    client, _, _ = log[0].partition(".")
    args, options = REQUESTS[name]
    assert getattr(world, client).last == {"args": (PODS, *args), **options}
    if COUNTED in log and ATTEMPT not in log:
        assert world.guard.last == {"args": (KEY,)}
    if "store.record_write" in log:
        assert world.store.last == {"args": ("5",)}
    if any(each.startswith("expectations") for each in log):
        side = ClusterSide.SUPER if client == "super" else ClusterSide.TENANT
        what = {EXPECTED: ("9",), DELETED: (ENTRY, "9")}.get(log[1], (ENTRY,))
        recorded = {"taken": False, **world.expectations.last}
        assert recorded == {"args": (side, KEY, *what), "taken": name in WAKE_NOTHING}
    if name in ANSWERS:
        assert answer == ANSWERS[name]
    else:
        assert isinstance(answer, dict | None)


ANSWERS: dict[str, bool | str] = {
    "update a super object": True,
    "patch a super object": True,
    "patch in the tenant": "9",
    "patch in the tenant without an object": "",
    **dict.fromkeys((each for each in OTHER if each.startswith("delete")), True),
}


@pytest.mark.parametrize("name", [*ALL])
async def test_creates_and_updates_in_the_super_cluster_wait_for_their_bytes(name):
    """Deletes, and writes in the tenant, never wait."""
    world = World()
    tokens, quota = EmptyBucket(), RecordingQuota(world.log)
    world.writer = world.made(world.guard, quota=quota, write_tokens=tokens)
    write, log = ALL[name]
    if not log[0].startswith("super") or log[0] == "super.delete":
        await write(world.writer)
        assert world.log == log
        return
    with pytest.raises(NotReadyYet):
        await write(world.writer)
    assert world.log == []
    parts = [next(each for each in REQUESTS[name][0] if isinstance(each, dict))]
    if "super.patch" in log and ATTEMPT in log:  # etcd stores the whole object
        parts.append(WIDE if name == "merge a twin of the cluster" else LIVE)
    assert tokens.taken == sum(len(orjson.dumps(part)) for part in parts)


@pytest.mark.parametrize("name", CHARGES)
async def test_quota_is_charged_for_what_will_exist(name):
    world = World()
    quota = RecordingQuota(world.log)
    world.writer = world.made(world.guard, quota=quota)
    write, log = ALL[name]
    await write(world.writer)
    assert world.log == ["quota.charge", log[0], "quota.settle", *log[1:]]
    assert quota.charged == (KEY, "Pod", CHARGES[name])
    assert quota.settled["metadata"]["resourceVersion"] == "9"


@pytest.mark.parametrize(
    ("scope", "charged"),
    [(SUPER, {**STAMPED, "kept": 1}), (STATUS, None)],
    ids=["object", "subresource"],
)
async def test_quota_is_charged_for_the_result_of_a_merge(scope, charged):
    world = World()
    quota = RecordingQuota(world.log)
    writer, before = world.made(world.guard, quota=quota), {**LIVE, "kept": 1}
    await writer.update_twin(scope, SERVICES, body(), before=before, tenant_x=ENTRY, kind="merge")
    assert quota.charged == (KEY, "Service", charged)


@pytest.mark.parametrize("name", PARKABLE)
async def test_a_repeated_difference_is_counted_with_its_arguments(name):
    world = World()
    parked = RecordingParked("parked", world.log)
    world.writer = world.made(world.guard, parked=parked)
    await PARKABLE[name][0](world.writer)
    scope = SUPER if PARKABLE[name][1][0].startswith("super") else TENANT
    sent = next(each for each in REQUESTS[name][0] if isinstance(each, dict))
    before = ENTRY.decode() if name == "apply in the tenant" else LIVE
    assert parked.asked == (scope, body(), before)
    assert parked.last["args"] == (scope, sent)
    answer = parked.last["answer"]["metadata"]["resourceVersion"]
    assert (parked.last["before"], parked.last["resource"], answer) == (before, PODS, "9")
    assert parked.last["tenant_x"] is (None if name == "update a super object" else ENTRY)


@pytest.mark.parametrize(
    ("write", "log"), [*PARKABLE.values(), *OTHER.values()], ids=[*PARKABLE, *OTHER]
)
async def test_guards_record_a_write_in_order(write, log):
    world = World()
    await write(world.writer)
    assert world.log == log


@pytest.mark.parametrize("write", [each for each, _ in PARKABLE.values()], ids=[*PARKABLE])
async def test_parked_write_is_left_out(write):
    world = World(is_parked=True)
    assert not await write(world.writer)
    assert world.log == []


@pytest.mark.parametrize(
    ("write", "log"), [*PARKABLE.values(), *OTHER.values()], ids=[*PARKABLE, *OTHER]
)
async def test_refused_write_is_not_recorded(write, log):
    verb = log[0].partition(".")[2]
    world = World(**{verb: errors.Forbidden("no")})
    with pytest.raises(errors.Forbidden):
        await write(world.writer)
    assert world.log == log[:1]


@pytest.mark.parametrize("verb", ["delete_super_object", "delete_tenant_object"])
@pytest.mark.parametrize("is_counted", [False, True])
async def test_delete_of_a_missing_object(verb, is_counted):
    world = World(delete=errors.NotFound("none"))
    assert not await getattr(world.writer, verb)(KEY, PODS, ENTRY, is_counted=is_counted)
    assert DELETED not in world.log


@pytest.mark.parametrize("verb", ["delete_super_object", "delete_tenant_object"])
@pytest.mark.parametrize(
    "answer", [{"kind": "Status", "metadata": {}}, {"metadata": {}}], ids=["gone", "no version"]
)
async def test_delete_without_a_version_in_its_answer_expects_none(verb, answer):
    world = World(delete=answer)
    assert await getattr(world.writer, verb)(KEY, PODS, ENTRY)
    assert world.expectations.last["args"][-1] == ""


@pytest.mark.parametrize(
    ("scope", "is_stamped"), [(SUPER, True), (STATUS, False)], ids=["object", "subresource"]
)
async def test_twin_records_the_revision_of_the_tenant(scope, is_stamped):
    world = World()
    patch = body()
    await world.writer.update_twin(scope, PODS, patch, before=LIVE, tenant_x=ENTRY, kind="merge")
    annotations = patch["metadata"].get("annotations", {})
    assert annotations == ({wellknown.STORE_REVISION: "5"} if is_stamped else {})
    assert world.store.last["args"] == ("5",)


@pytest.mark.parametrize(
    ("twin", "is_whole"), [(body(), True), ({**body(), "status": {"newer": 1}}, False)]
)
async def test_create_returns_an_incomplete_twin(twin, is_whole):
    world = World()
    written = await world.writer.create_twin(KEY, PODS, twin, ENTRY)
    assert (written is None) is is_whole
    assert world.expectations.last["taken"] is is_whole
    assert world.expectations.last["args"] == (ClusterSide.SUPER, KEY, "9")


@pytest.mark.parametrize(
    ("grace", "taken"), [(None, False), (0, True), (30, False)], ids=["default", "none", "some"]
)
async def test_delete_in_the_tenant_expects_the_version_of_the_answer(grace, taken):
    world = World()
    await world.writer.delete_tenant_object(KEY, PODS, ENTRY, grace_seconds=grace)
    assert world.expectations.last == {
        "args": (ClusterSide.TENANT, KEY, ENTRY, "9"),
        "taken": taken,
    }


async def test_repeated_difference_is_parked_and_reported_once():
    world = World()
    writer = world.made(HotLoopGuard())
    for _ in range(REPEATS_TO_PARK + 2):
        await writer.patch_tenant_object(
            TENANT, PODS, {**body(), "newer": 1}, before=LIVE, tenant_x=entry_of(LIVE)
        )
    assert world.log.count("tenant.patch") == REPEATS_TO_PARK
    assert world.log.count("status") == 1
    assert world.events.reasons == [SYNC_PARKED]


def entry_of(live: dict[str, Any]) -> Entry:
    return parse_entry(orjson.dumps(live))
