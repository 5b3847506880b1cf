"""Decisions from the cache of VirtualClusters, and who is woken by a change."""

import json
from types import SimpleNamespace

from kubeio.cache.store import parse_entry
from tenancy.access import hosts
from vcmanager.runtime.host_watch import HostWatch, _reduce

BASE = "clusters.example.com"


def body(name, hostname="", *, created=0, version=1, address=""):
    return {
        "metadata": {
            "namespace": "n",
            "name": name,
            "uid": f"uid-{name}",
            "creationTimestamp": f"2026-01-01T00:00:0{created}Z",
            "resourceVersion": str(version),
        },
        "spec": {"endpoint": {"hostname": hostname}, "clusterVersionName": "v"},
        "status": {"apiServerAddress": address, "conditions": [{"type": "Ready"}]},
    }


class Watched:
    """A watch that the test feeds."""

    def __init__(self, base=BASE):
        self.woken = []
        client = SimpleNamespace(endpoint=SimpleNamespace(title="x"))
        self.watch = HostWatch(client, base, lambda claim: self.woken.append(claim.name))

    def put(self, *args, **fields):
        entry = parse_entry(json.dumps(body(*args, **fields)).encode())
        self.watch._store.put(_reduce(entry), live=True)

    def drop(self, name):
        entry = self.watch._store.get("n", name)
        self.watch._store.discard(entry, live=True)

    def problem(self, *args, **fields):
        return self.watch.find_problem(hosts.parse_claim(body(*args, **fields)))

    def owners(self):
        return {host: claim.name for host, claim in self.watch.iterate_owners()}


def test_the_owner_of_each_name_is_found():
    made = Watched()
    made.put("a", "shop.example.com", created=1)
    made.put("b", "shop.example.com", created=0)
    made.put("c")
    made.put("d", f"c.n.{BASE}", created=0)
    assert made.owners() == {"shop.example.com": "b", f"c.n.{BASE}": "c"}
    assert made.problem("a", "shop.example.com", created=1) == hosts.HOSTNAME_TAKEN
    assert made.problem("b", "shop.example.com", created=0) is None


def test_a_tenant_that_the_watch_has_not_seen_is_decided_too():
    made = Watched()
    made.put("a", "shop.example.com", created=1)
    assert made.problem("new", "shop.example.com", created=2) == hosts.HOSTNAME_TAKEN
    assert made.problem("new", "new.example.com", created=2) is None
    # The spec of the object that is reconciled counts, not the one in the cache.
    assert made.problem("a", "other.example.com", created=1) is None


def test_all_tenants_of_a_name_are_enqueued_when_its_owner_leaves():
    made = Watched()
    made.put("a", "shop.example.com", created=0)
    made.put("b", "shop.example.com", created=1)
    made.woken.clear()
    made.drop("a")
    assert set(made.woken) == {"a", "b"}
    assert made.owners() == {"shop.example.com": "b"}


def test_a_change_without_a_claim_enqueues_no_tenant():
    made = Watched("")
    made.put("a", "shop.example.com")
    made.woken.clear()
    made.put("a", "shop.example.com", version=2)
    assert made.woken == []
    made.put("a", "shop.example.com", version=3, address="10.0.0.1:6443")
    assert made.woken == ["a"]


def test_a_tenant_without_any_name_has_no_owner_row():
    made = Watched("")
    made.put("a")
    assert made.owners() == {}
