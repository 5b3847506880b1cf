"""Tenants that get another address after a node is gone."""

from tests.support.vcmanager.factories import RecordingClient, fake_means
from vcmanager.reconcilers import node_address
from vcmanager.runtime import keys


def cluster(name: str, endpoint: str) -> dict:
    return {"metadata": {"namespace": "default", "name": name}, "status": {"endpoint": endpoint}}


async def test_only_tenants_that_were_reached_there_are_enqueued():
    super_client, woken = RecordingClient(), []
    super_client.listed = [
        cluster("there", "https://192.0.2.1:30443"),
        cluster("elsewhere", "https://192.0.2.10:30443"),
        cluster("inside", "https://apiserver-svc.root.svc:6443"),
        {"metadata": {"namespace": "default", "name": "new"}},
        cluster("six", "https://[2001:db8::1]:30443"),
    ]
    means = fake_means(super_client, wake=woken.append)
    await node_address.reconcile_node_address(means, keys.build_node_address_key("192.0.2.1"))
    assert woken == [keys.build_virtual_cluster_key("default", "there")]
    await node_address.reconcile_node_address(means, keys.build_node_address_key("2001:db8::1"))
    assert woken[1:] == [keys.build_virtual_cluster_key("default", "six")]
