"""Who gets another address when a node is gone."""

from tests.support.vcmanager.factories import Recorder, fake_means
from vcmanager.reconcilers import node_address
from vcmanager.runtime import keys


def cluster(name: str, endpoint: str) -> dict:
    return {"metadata": {"namespace": "default", "name": name}, "status": {"endpoint": endpoint}}


async def test_only_tenants_that_were_reached_there_are_woken():
    super_client, woken = Recorder(), []
    super_client.listed = [
        cluster("there", "https://192.0.2.1:30443"),
        cluster("elsewhere", "https://192.0.2.10:30443"),
        cluster("inside", "https://apiserver-svc.root.svc:6443"),
        {"metadata": {"namespace": "default", "name": "new"}},
        cluster("six", "https://[2001:db8::1]:30443"),
    ]
    means = fake_means(super_client, wake=woken.append)
    await node_address.reconcile(means, keys.node_address("192.0.2.1"))
    assert woken == [keys.virtual_cluster("default", "there")]
    await node_address.reconcile(means, keys.node_address("2001:db8::1"))
    assert woken[1:] == [keys.virtual_cluster("default", "six")]
