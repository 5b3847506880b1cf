"""A tenant's list of pods: its own, reduced to what it wrote and what became of it."""

import json

import pytest

from tenancy import wellknown
from tests.support.vnagent import kubelet_answers
from tests.support.vnagent.kubelet_answers import (
    ONE,
    THEN,
    TWO,
    by_uid,
    caller,
    listed,
    owned,
    pod_list,
)
from vnagent.authz.pod_list_parser import PodListError
from vnagent.nodeapi import pod_lists

GUEST = owned(2, vc_uid=TWO, super_namespace="default-b41df0-two-web")
WHOLE = {
    "metadata": {
        "name": "shop",
        "namespace": "web",
        "uid": kubelet_answers.tenant_uid(1),
        "labels": {"app": "shop", "tier": "web"},
    },
    "spec": {
        "nodeName": "n1",
        "containers": [{"name": "main", "image": "i/main"}, {"name": "side", "image": "i/side"}],
    },
    "status": {
        "phase": "Running",
        "podIP": "10.0.0.9",
        "podIPs": [{"ip": "10.0.0.9"}],
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": THEN}],
        "containerStatuses": [
            {
                "name": name,
                "ready": True,
                "restartCount": 1,
                "image": f"i/{name}",
                "state": {"running": {"startedAt": THEN}},
                **more,
            }
            for name, more in (
                ("main", {"lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}),
                ("side", {}),
            )
        ],
    },
}


def bound(*items, vc_uid: str = ONE):
    """Return what a tenant gets of `/pods`, as text and its items."""
    text = pod_lists.filter_pods(pod_list(*items), caller(vc_uid)).decode()
    found = json.loads(text)
    assert (found["kind"], found["apiVersion"]) == ("PodList", "v1")
    return text, found["items"]


def test_a_pod_is_what_the_tenant_wrote_and_what_became_of_it():
    """Exactly this: variables, volumes, tokens, messages and the super cluster's labels stay."""
    text, items = bound(listed(owned()), listed(GUEST))
    assert items == [WHOLE]
    assert not [
        word
        for word in (*kubelet_answers.SECRETS, wellknown.DOMAIN, "vc-", "192.0.2.1")
        if word in text
    ]


def test_what_a_later_kubelet_adds_does_not_pass():
    """Closed by default: it may be the super cluster's."""
    now = pod_list(listed(owned()))
    later = kubelet_answers.with_news(now)
    assert later.count(b"guest") > now.count(b"guest") + 50
    assert pod_lists.filter_pods(later, caller(ONE)) == pod_lists.filter_pods(now, caller(ONE))
    assert pod_lists.filter_running_pods(later, by_uid(owned())) == pod_lists.filter_running_pods(
        now, by_uid(owned())
    )


def test_equal_names_are_distinguished():
    """In two namespaces of a tenant, and at two tenants."""
    lab = owned(3, tenant_namespace="lab", super_namespace="default-b41df0-one-lab")
    pods = [listed(pod) for pod in (owned(), GUEST, lab)]
    uids = {item["metadata"]["uid"] for item in bound(*pods)[1]}
    assert uids == {kubelet_answers.tenant_uid(1), kubelet_answers.tenant_uid(3)}
    (guest,) = bound(*pods, vc_uid=TWO)[1]
    assert guest["metadata"]["uid"] == kubelet_answers.tenant_uid(2)
    assert bound(*pods, vc_uid="33333333-0000-4000-8000-000000000000")[1] == []


def test_pods_without_a_tenant_are_in_no_list():
    """SEC-06: without the whole record, or with one that another pod has as well."""
    bare = listed(owned())
    del bare["metadata"]["annotations"][wellknown.UID]
    assert bound(bare)[1] == []
    again = listed(owned(5))
    assert bound(listed(owned()), again, listed(owned(3, name="cart")))[1][0]["metadata"][
        "name"
    ] == ("cart")
    assert len(bound(listed(owned()), again)[1]) == 0


def test_labels_are_the_tenants_as_recorded():
    """Without a record none: what a webhook of the super cluster adds looks like any other."""
    for record in (None, "", "{", "[]", "5", '[["app"]]', '{"app": 1}', "[5,[]]", '["app",[]]'):
        item = listed(owned())
        item["metadata"]["annotations"][wellknown.SYNCED_KEYS] = record
        assert "labels" not in bound(item)[1][0]["metadata"]
    item = listed(owned(), labels=None)
    assert "labels" not in bound(item)[1][0]["metadata"]


def test_translated_labels_have_the_tenants_keys():
    """A record of another form adds none, and what is in no record is the super cluster's."""
    key = "gateway.networking.k8s.io/gateway-name"
    item = listed(owned())
    labels, annotations = item["metadata"]["labels"], item["metadata"]["annotations"]
    labels[wellknown.translate_label_key(key)] = "edge"
    labels[wellknown.translate_label_key("linkerd.io/x")] = "theirs"
    plain = {"app": "shop", "tier": "web"}
    annotations[wellknown.LABEL_KEYS] = json.dumps([key, "linkerd.io/absent"])
    assert bound(item)[1][0]["metadata"]["labels"] == {**plain, key: "edge"}
    del annotations[wellknown.LABEL_KEYS]
    assert bound(item)[1][0]["metadata"]["labels"] == plain
    for record in ("{", "5", "null", "[5]", "[null]", "[[]]"):
        annotations[wellknown.LABEL_KEYS] = record
        assert "labels" not in bound(item)[1][0]["metadata"]
    annotations[wellknown.LABEL_KEYS] = 5
    assert "labels" not in bound(item)[1][0]["metadata"]


def test_the_nodes_address_is_not_shown():
    """A pod on the host's network has the node's, which a policy may hide."""
    text, (item,) = bound(listed(owned(is_on_host_network=True)))
    assert "10.0.0.9" not in text
    assert item["status"]["phase"] == "Running"


def test_running_pods_are_known_by_uid():
    """The runtime's list has names, places and images, and no tenant's record."""

    def run(pod):
        ref = {"name": pod.name, "namespace": pod.super_namespace, "uid": pod.super_uid}
        containers = [{"name": "main", "image": "sha256:1", "resources": {}}, {"name": "mesh"}]
        return {"metadata": {**ref, "creationTimestamp": None}, "spec": {"containers": containers}}

    moved = owned(1, super_namespace="kube-system")
    document = pod_list(run(owned()), run(GUEST), run(owned(9)), run(moved), {"metadata": {}})
    found = json.loads(
        pod_lists.filter_running_pods(document, by_uid(owned(), owned(3, name="cart")))
    )
    (item,) = found["items"]
    assert item["metadata"] == {
        "name": "shop",
        "namespace": "web",
        "uid": kubelet_answers.tenant_uid(1),
    }
    assert item["spec"] == {"containers": [{"name": "main", "image": "sha256:1"}]}
    assert json.loads(pod_lists.filter_running_pods(b'{"items": null}', {}))["items"] == []


@pytest.mark.parametrize(
    "document",
    [b"", b"{", b"[]", b"null", b"{}", b'{"items": 5}', b'{"items": [5]}', b'{"items": [{}]}']
    + [b"\x1f\x8b\x08", b"<html>", b'{"items": ["a"]}'],
)
def test_what_is_no_list_is_noticed(document):
    """It would look like a node without pods."""
    with pytest.raises(PodListError):
        pod_lists.filter_pods(document, caller(ONE))
    with pytest.raises(PodListError):
        pod_lists.filter_running_pods(document, by_uid(owned()))


@pytest.mark.parametrize("value", [None, 5, "text", [], {}, [5], {"a": 1}, True])
def test_odd_parts_are_left_out(value):
    """Whatever stands where a spec, a status or a container is to be."""
    item = listed(owned())
    item["status"] = item["spec"]["containers"] = value
    _, (found,) = bound(item)
    assert found["spec"].get("containers", []) == []
    assert found["status"] == {}
