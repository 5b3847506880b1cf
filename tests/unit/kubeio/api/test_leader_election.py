"""The lease with a server that fails on demand and time that passes on demand."""

from __future__ import annotations

import asyncio
import contextlib

import orjson
import pytest

from kubeio import errors
from kubeio.api.client import Client
from kubeio.api.leader_election import (
    HANDOVER_SECONDS,
    LEASE_DURATION_SECONDS,
    RENEW_DEADLINE_SECONDS,
    LeaderElector,
    LeaseLostError,
    LeaseObserver,
    build_identity,
)
from tenancy.resources import LEASES, NAMESPACES
from tests.support.eventually import eventually
from tests.support.faketime import FakeTime
from tests.support.memapi import clusters, patches, verbs
from tests.support.memapi.refusals import StatusError
from tests.support.memapi.served import Served


class LeaseServer(Served):
    """The Lease `l` in the namespace `n`, as a test sees it and changes it behind its holder."""

    def __init__(self):
        super().__init__(clusters.fresh("leases", "10.96.0.0/16", accounts=False))
        self._leases = self.cluster.of(LEASES)
        self._leases.listeners.append(self._wrote)
        verbs.create(
            self.cluster, self.cluster.of(NAMESPACES), "", {"metadata": {"name": "n"}}, "test"
        )
        self.writes = 0

    def _wrote(self, kind, _):
        self.writes += kind != "DELETED"

    @property
    def lease(self):
        found = self._leases.get("n", "l")
        return found and found.decode()

    @property
    def holder(self):
        return self.lease and self.lease["spec"]["holderIdentity"]

    def change(self, **fields):
        change = lambda found: patches.merged(found, fields, by_key=False)  # noqa: E731
        verbs.patch(self._leases, self._leases.get("n", "l"), change, fields, "test")

    def steal(self, holder):
        self.change(spec={"holderIdentity": holder})

    def delete(self):
        verbs.delete(self._leases, self._leases.get("n", "l"), {})


def internal_error(_):
    return StatusError(500, "InternalError", "InternalError")


class LeaseScope:
    """The work of the holder of the Lease."""

    def __init__(self):
        self.running = False
        self.runs = 0

    async def __call__(self):
        self.running = True
        self.runs += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.running = False


@contextlib.asynccontextmanager
async def _candidate(server, time, scope, identity="one", **options):
    async with Client(server.endpoint) as client:
        lease = LeaderElector(
            client,
            namespace="n",
            name="l",
            identity=identity,
            clock=time.clock,
            sleep=time.sleep,
            now=time.now,
            **options,
        )
        task = asyncio.ensure_future(lease.run(scope))
        try:
            yield lease, task
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, LeaseLostError):
                await task


async def test_a_free_lease_is_taken_renewed_and_given_back():
    store, time, scope = LeaseServer(), FakeTime(), LeaseScope()
    async with store.running():
        async with _candidate(store, time, scope) as (lease, _):
            await eventually(lambda: scope.running and time.asleep == 1)
            assert lease.is_held
            assert store.lease["spec"] == {
                "holderIdentity": "one",
                "leaseDurationSeconds": 7,
                "leaseTransitions": 0,
                "acquireTime": "2026-01-01T00:16:40.000000Z",
                "renewTime": "2026-01-01T00:16:40.000000Z",
            }
            time.pass_to_next()
            await eventually(lambda: store.writes == 2 and time.asleep == 1)
            assert store.lease["spec"]["renewTime"] == "2026-01-01T00:16:41.250000Z"
            assert store.lease["spec"]["acquireTime"] == "2026-01-01T00:16:40.000000Z"
        assert (store.holder, lease.is_held, scope.running) == ("", False, False)
        assert store.lease["spec"]["leaseDurationSeconds"] == 1


async def test_a_renewal_that_was_cut_off_does_not_keep_it_from_being_given_back():
    store, time, scope = LeaseServer(), FakeTime(), LeaseScope()
    async with store.running():
        async with _candidate(store, time, scope):
            await eventually(lambda: scope.running and time.asleep == 1)
            store.steal("one")  # it got through, and the answer did not arrive
        assert store.holder == ""


async def test_what_the_scope_returns_and_raises_comes_through():
    store, time = LeaseServer(), FakeTime()

    async def answer():
        return 42

    async def fail():
        raise ZeroDivisionError

    async with store.running(), Client(store.endpoint) as client:
        lease = LeaderElector(
            client, namespace="n", name="l", identity="one", clock=time.clock, sleep=time.sleep
        )
        assert await lease.run(answer) == 42
        with pytest.raises(ZeroDivisionError):
            await lease.run(fail)
        assert store.holder == ""


async def test_a_silent_server_fences_the_scope_before_anyone_else_could_take_over():
    """REL-50."""
    store, time, scope = LeaseServer(), FakeTime(), LeaseScope()

    async with store.running(), _candidate(store, time, scope) as (_, task):
        await eventually(lambda: scope.running and time.asleep == 1)
        last_renewal = time.seconds
        store.refusal = internal_error
        while not task.done():
            time.pass_to_next()
            await eventually(lambda: task.done() or time.asleep == 1)
        assert time.seconds - last_renewal <= RENEW_DEADLINE_SECONDS
        assert not scope.running
        with pytest.raises(LeaseLostError, match="could not be renewed"):
            task.result()


async def test_a_short_trouble_is_survived():
    store, time, scope = LeaseServer(), FakeTime(), LeaseScope()

    async with store.running(), _candidate(store, time, scope) as (lease, _):
        await eventually(lambda: scope.running and time.asleep == 1)
        store.refusal = internal_error
        for _ in range(3):
            time.pass_to_next()
            await eventually(lambda: time.asleep == 1)
        store.refusal = lambda _: None
        time.pass_to_next()
        await eventually(lambda: store.writes == 2)
        assert lease.is_held
        assert scope.runs == 1


async def test_a_stolen_lease_ends_the_scope_at_the_next_look():
    store, time, scope = LeaseServer(), FakeTime(), LeaseScope()
    async with store.running(), _candidate(store, time, scope) as (_, task):
        await eventually(lambda: scope.running and time.asleep == 1)
        store.steal("thief")
        time.pass_to_next()
        await eventually(task.done)
        assert not scope.running
        with pytest.raises(LeaseLostError, match="held by thief"):
            task.result()
        assert store.holder == "thief"  # what is not ours is not given back


async def test_a_foreign_edit_does_not_lose_the_lease():
    store, time, scope = LeaseServer(), FakeTime(), LeaseScope()
    async with store.running(), _candidate(store, time, scope) as (lease, _):
        await eventually(lambda: scope.running and time.asleep == 1)
        store.change(metadata={"labels": {"x": "1"}})
        time.pass_to_next()
        await eventually(lambda: time.asleep == 1)
        time.pass_to_next()
        await eventually(lambda: store.writes == 3)
        assert lease.is_held
        assert store.lease["metadata"]["labels"] == {"x": "1"}


async def test_the_second_waits_for_as_long_as_the_first_renews_and_takes_over_when_it_stops():
    """REL-50: never both."""
    store, time = LeaseServer(), FakeTime()
    first, second = LeaseScope(), LeaseScope()
    async with store.running(), _candidate(store, time, first) as (_, dying):
        await eventually(lambda: first.running and time.asleep == 1)
        async with _candidate(store, time, second, "two") as (lease, _task):
            for _ in range(40):
                await eventually(lambda: time.asleep == 2)
                time.pass_to_next()
            assert first.running
            assert not second.running
            # The first one's machine stops: no renewal, no release.
            store.refusal = lambda request: (
                internal_error(request) if _writer(request) in ("one", "") else None
            )
            while not second.running:
                await eventually(lambda: time.asleep >= 1 or second.running)
                assert not (first.running and second.running)
                if not second.running:
                    time.pass_to_next()
            assert dying.done()
            assert lease.is_held
            assert store.lease["spec"]["leaseTransitions"] == 1


def _writer(request):
    """The holder of the Lease after this request. None for a read."""
    return orjson.loads(request.body)["spec"]["holderIdentity"] if request.body else None


async def test_the_next_process_of_a_pod_takes_back_what_the_one_before_it_left():
    """Another pod, or a process outside of one, waits until that has run out."""
    store, time = LeaseServer(), FakeTime()
    async with store.running():
        for who, is_had in (
            (("pod", "uid"), True),
            (("pod", "other"), False),
            (("pod", ""), False),
        ):
            dead, scope = build_identity("pod", "uid"), LeaseScope()
            async with _candidate(store, time, LeaseScope(), dead):
                await eventually(lambda: store.holder == "pod_uid" and time.asleep == 1)
                left = store.lease
            store.change(spec=left["spec"])
            async with _candidate(store, time, scope, build_identity(*who)):
                await eventually(lambda: time.asleep == 1)
                assert scope.running == is_had
            store.delete()


async def test_of_two_processes_of_one_pod_the_earlier_ends_at_its_next_renewal():
    """No kubelet has that. One that does must not have two writers, nor lose the later's lease."""
    store, time = LeaseServer(), FakeTime()
    first, second = LeaseScope(), LeaseScope()
    async with store.running(), _candidate(store, time, first) as (_, earlier):
        await eventually(lambda: first.running and time.asleep == 1)
        time.pass_to_next()
        await eventually(lambda: store.writes == 2 and time.asleep == 1)
        async with _candidate(store, time, second) as (lease, _task):
            await eventually(lambda: second.running and time.asleep == 2)
            time.pass_to_next()
            await eventually(earlier.done)
            assert not first.running
            assert (lease.is_held, store.holder) == (True, "one")


async def test_a_released_lease_is_taken_at_the_next_look():
    store, time = LeaseServer(), FakeTime()
    first, second = LeaseScope(), LeaseScope()
    async with store.running():
        async with _candidate(store, time, second, "two") as (_, _task):
            await eventually(lambda: second.running and time.asleep == 1)
            async with _candidate(store, time, first) as (_, waiting):
                await eventually(lambda: time.asleep == 2)
                waiting.cancel()
                await eventually(waiting.done)
        assert store.holder == ""
        async with _candidate(store, time, first):
            await eventually(lambda: first.running)


def _lease(holder="one", renewed="t0", duration=15):
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": duration}
    return {"spec": spec}


def test_an_observer_trusts_a_record_for_its_duration_and_no_clock_but_its_own():
    """REL-51: the time written by the other may be of 1970."""
    time = FakeTime()
    observer = LeaseObserver(time.clock)
    assert not observer.is_held(None)
    assert observer.is_held(_lease(renewed="1970-01-01T00:00:00Z"))
    time.seconds += 14.9
    assert observer.is_held(_lease(renewed="1970-01-01T00:00:00Z"))
    time.seconds += 0.1
    assert not observer.is_held(_lease(renewed="1970-01-01T00:00:00Z"))
    assert observer.is_held(_lease(renewed="renewed"))
    assert not observer.is_held(_lease(holder=""))
    assert not observer.is_held(_lease(renewed="other"), by_other_than="one")


def test_times_that_fence_nothing_are_refused():
    with pytest.raises(ValueError, match="otherwise writes are not fenced"):
        LeaderElector(
            None, namespace="n", name="l", identity="i", duration=10.0, renew_deadline=10.0
        )


async def test_a_write_is_let_through_only_while_the_lease_is_certainly_held():
    """REL-12, REL-79: a loop that stood still counts as frozen."""
    store, time, scope = LeaseServer(), FakeTime(), LeaseScope()
    async with store.running(), _candidate(store, time, scope) as (lease, task):
        with pytest.raises(errors.Fenced, match="the Lease n/l was not renewed"):
            lease.check_fence()
        await eventually(lambda: scope.running and time.asleep == 1)
        lease.check_fence()
        time.seconds += RENEW_DEADLINE_SECONDS - 0.1
        lease.check_fence()
        time.seconds += 0.1  # frozen: nothing of ours ran meanwhile
        with pytest.raises(errors.Fenced):
            lease.check_fence()
        assert scope.running
        assert not task.done()


def test_a_holder_that_vanishes_is_followed_within_ten_seconds():
    assert RENEW_DEADLINE_SECONDS < LEASE_DURATION_SECONDS < HANDOVER_SECONDS < 10.0
