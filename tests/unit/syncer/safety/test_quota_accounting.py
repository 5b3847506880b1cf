"""The accountant of a tenant's quota never exceeds, never drifts, and wakes what has room."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeio import errors
from syncer.model.keys import HOME, Key
from syncer.safety.quota_accounting import QuotaAccountant, QuotaExceededError
from tenancy.policy.quotas import parse_hard


def key(name: str, kind: str = "Pod", cluster: str = HOME) -> Key:
    """Return a key of the tenant."""
    return Key("vc", cluster, kind, "web", name)


def pod(cpu: str = "1") -> dict[str, Any]:
    """Return a pod."""
    return {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}


def written(body: dict[str, Any], version: int) -> dict[str, Any]:
    """Return the answer of a server."""
    return {**body, "metadata": {"resourceVersion": str(version)}}


class Woken:
    """An accountant with the keys that it queued."""

    def __init__(self, **hard: Any) -> None:
        self.keys: list[Key] = []
        self.accountant = QuotaAccountant(wake=self.keys.append)
        self.accountant.set_hard(parse_hard(hard))

    def pop(self) -> list[str]:
        """Return the names of the keys that were queued since."""
        found = [each.name for each in self.keys]
        self.keys.clear()
        return found


def test_a_write_is_reserved_before_it_is_sent():
    """SEC-60: parallel creates never exceed."""
    accountant = Woken(pods=2).accountant
    with accountant.charge(key("a"), "Pod", pod()), accountant.charge(key("b"), "Pod", pod()):
        with pytest.raises(QuotaExceededError) as refused:
            accountant.charge(key("c"), "Pod", pod()).__enter__()
        assert str(refused.value) == "pods: requested 1, used 2, limit 2"


def test_two_namespaces_are_each_within_and_together_over_the_quota():
    accountant = Woken(**{"requests.cpu": "3"}).accountant
    accountant.reserve(key("a"), {"requests.cpu": 2000})
    other = key("a")._replace(namespace="shop")
    with pytest.raises(QuotaExceededError):
        accountant.reserve(other, {"requests.cpu": 2000})
    accountant.reserve(other, {"requests.cpu": 1000})
    assert accountant.get_used("requests.cpu") == 3000


OUTCOMES: dict[str, tuple[errors.KubeError, int]] = {
    "refused": (errors.Invalid("no"), 0),
    "never sent": (errors.NotSent("no"), 0),
    "fenced": (errors.Fenced("no"), 0),
    "name taken, perhaps by this key": (errors.AlreadyExists("yes"), 1),
    "no answer": (errors.Timeout("?"), 1),
    "failed server": (errors.ServerError("?"), 1),
    "broken connection": (errors.Unavailable("?"), 1),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_reservation_stays_while_its_write_may_have_arrived(name: str):
    problem, kept = OUTCOMES[name]
    accountant = Woken(pods=5).accountant
    with pytest.raises(type(problem)), accountant.charge(key("a"), "Pod", pod()):
        raise problem
    accountant.finish_key(key("a"), is_done=False)
    assert accountant.get_used("pods") == kept * 1000
    accountant.finish_key(key("a"), is_done=True)  # the caches show that there is no such object
    assert accountant.get_used("pods") == 0


def test_an_answer_counts_until_the_cache_shows_it():
    accountant = Woken(pods=5, cpu=5).accountant
    with accountant.charge(key("a"), "Pod", pod()) as charge:
        charge.settle(written(pod("2"), 10))
    accountant.finish_key(key("a"), is_done=True)
    assert accountant.get_used("cpu") == 2000
    accountant.observe(key("a"), {"pods": 1000, "cpu": 1000}, "9")  # an older version
    assert accountant.get_used("cpu") == 2000
    accountant.observe(key("a"), {"pods": 1000, "cpu": 1500}, "10")
    assert accountant.get_used("cpu") == 1500
    accountant.observe(key("a"), None)
    assert accountant.get_used("cpu") == accountant.get_used("pods") == 0


def test_an_event_before_the_answer_counts_once():
    accountant = Woken(pods=5).accountant
    with accountant.charge(key("a"), "Pod", pod()) as charge:
        accountant.observe(key("a"), {"pods": 1000}, "10")
        assert accountant.get_used("pods") == 1000
        charge.settle(written(pod(), 10))
    assert accountant.get_used("pods") == 1000
    accountant.observe(key("a"), None)
    assert accountant.get_used("pods") == 0


def test_an_object_that_ends_before_the_answer_counts_nothing():
    accountant = Woken(pods=5).accountant
    with accountant.charge(key("a"), "Pod", pod()) as charge:
        accountant.observe(key("a"), {"pods": 1000}, "10")
        accountant.observe(key("a"), None)
        charge.settle(written(pod(), 10))
    assert accountant.get_used("pods") == 0


def test_growth_is_charged_and_shrinking_is_always_allowed():
    accountant = Woken(cpu=4).accountant
    accountant.observe(key("a"), {"cpu": 3000}, "1")
    with pytest.raises(QuotaExceededError, match="cpu: requested 2, used 3, limit 4"):
        accountant.reserve(key("a"), {"cpu": 5000})
    accountant.reserve(key("a"), {"cpu": 4000})
    accountant.set_hard(parse_hard({"cpu": 1}))
    accountant.reserve(key("a"), {"cpu": 2000})  # still above the limit, and less than before


def test_a_release_wakes_as_many_keys_as_have_room():
    woken = Woken(pods=2)
    accountant = woken.accountant
    for name in "ab":
        accountant.observe(key(name), {"pods": 1000}, "1")
    for name in "cdef":
        with pytest.raises(QuotaExceededError) as refused:
            accountant.reserve(key(name), {"pods": 1000})
        accountant.hold(key(name), refused.value)
    assert woken.pop() == []
    accountant.observe(key("a"), None)
    assert woken.pop() == ["c"]
    accountant.finish_key(
        key("c"), is_done=True
    )  # its object was deleted, so the next has its turn
    assert woken.pop() == ["d"]
    accountant.reserve(key("d"), {"pods": 1000})
    accountant.finish_key(key("d"), is_done=True)
    assert woken.pop() == []
    assert accountant.waiting_count == 2
    accountant.set_hard(parse_hard({"pods": 10}))
    assert woken.pop() == ["e", "f"]


def test_a_large_object_does_not_block_small_ones():
    woken = Woken(cpu=4)
    accountant = woken.accountant
    accountant.observe(key("a"), {"cpu": 4000}, "1")
    for name, amount in {"large": 4000, "small": 1000}.items():
        with pytest.raises(QuotaExceededError) as refused:
            accountant.reserve(key(name), {"cpu": amount})
        accountant.hold(key(name), refused.value)
    accountant.observe(key("a"), {"cpu": 2000}, "2")
    assert woken.pop() == ["small"]


def test_a_key_that_waits_is_refused_without_reads_until_there_is_room():
    accountant = Woken(pods=1).accountant
    accountant.observe(key("a"), {"pods": 1000}, "1")
    with pytest.raises(QuotaExceededError) as refused:
        accountant.reserve(key("b"), {"pods": 1000})
    accountant.hold(key("b"), refused.value)
    with pytest.raises(QuotaExceededError):
        accountant.check_not_waiting(key("b"))
    accountant.forget_waiter(key("b"))  # the tenant changed the object
    accountant.check_not_waiting(key("b"))


def test_kinds_without_a_limit_are_not_counted():
    accountant = Woken(services=1).accountant
    with accountant.charge(key("a"), "Pod", pod()):
        pass
    assert accountant.count_used() == {}
    assert accountant.kinds == {"Service"}


def test_objects_that_a_target_lost_while_it_was_away_are_released():
    accountant = Woken(pods=5).accountant
    for name in "ab":
        accountant.observe(key(name, cluster="east"), {"pods": 1000}, "1")
    accountant.observe(key("c"), {"pods": 1000}, "1")
    accountant.retain("east", {key("a", cluster="east")})
    assert accountant.get_used("pods") == 2000


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["create", "answer", "lost", "refuse", "event", "shrink", "grow", "delete", "restart"]
        ),
        st.integers(0, 7),
        st.integers(1, 4),
    ),
    max_size=80,
)


class Model:
    """A super cluster whose accountant sees events late, and some answers never."""

    LIMIT = 6

    def __init__(self) -> None:
        self.revision = 0
        self.server: dict[str, tuple[int, int]] = {}
        """Amount and version of each object that exists."""
        self.cache: dict[str, tuple[int, int]] = {}
        self.in_flight: dict[str, tuple[int, int]] = {}
        self.accountant = self.start()

    def start(self) -> QuotaAccountant:
        """Return an accountant that was started from complete caches."""
        accountant = QuotaAccountant()
        accountant.set_hard(parse_hard({"cpu": self.LIMIT}))
        self.cache = dict(self.server)
        for name, (amount, version) in self.cache.items():
            accountant.observe(key(name), {"cpu": amount * 1000}, str(version))
        return accountant

    def step(self, what: str, name: str, amount: int) -> None:
        """Do one thing, if it can be done."""
        idle = name not in self.in_flight and self.cache.get(name) == self.server.get(name)
        if what == "restart":
            self.in_flight.clear()
            self.accountant = self.start()
        elif what in ("create", "grow", "shrink") and idle:
            if (what == "create") == (name in self.server):
                return
            old = self.server.get(name, (0, 0))[0]
            wanted = {"create": amount, "grow": old + amount, "shrink": max(0, old - amount)}[what]
            try:
                self.accountant.reserve(key(name), {"cpu": wanted * 1000})
            except QuotaExceededError:
                assert wanted > old
                return
            self.revision += 1
            self.in_flight[name] = (wanted, self.revision)
        elif name in self.in_flight and what in ("answer", "lost", "refuse"):
            wanted, version = self.in_flight.pop(name)
            if what == "refuse":
                self.accountant.cancel(key(name))
                return
            self.server[name] = (wanted, version)
            if what == "answer":
                self.accountant.commit(key(name), {"cpu": wanted * 1000}, str(version))
            self.accountant.finish_key(key(name), is_done=what == "answer")
        elif what == "delete" and idle:
            self.server.pop(name, None)
        elif what == "event":
            self.see(name)

    def see(self, name: str) -> None:
        """Have the cache show an object as it is."""
        if name in self.server:
            self.cache[name] = self.server[name]
            amount, version = self.server[name]
            self.accountant.observe(key(name), {"cpu": amount * 1000}, str(version))
        elif self.cache.pop(name, None) is not None:
            self.accountant.observe(key(name), None)
        if name not in self.in_flight:
            self.accountant.finish_key(key(name), is_done=True)


@given(STEPS)
def test_the_accountant_never_exceeds_and_never_drifts(steps: list[tuple[str, int, int]]):
    """SEC-61: charges, releases and restarts in any order."""
    model = Model()
    for what, number, amount in steps:
        model.step(what, f"o{number}", amount)
        used = sum(each for each, _ in model.server.values())
        assert used <= model.LIMIT
        assert used * 1000 <= model.accountant.get_used("cpu") <= model.LIMIT * 1000
    for name in list(model.in_flight):
        model.step("answer", name, 1)
    for number in range(8):
        model.see(f"o{number}")
        model.see(f"o{number}")
    used = sum(each for each, _ in model.server.values())
    assert model.accountant.get_used("cpu") == used * 1000
