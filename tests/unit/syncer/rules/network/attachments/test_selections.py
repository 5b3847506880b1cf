"""Networks that a pod asks for, in the names of the super cluster."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncer.model.rejections import RejectedError
from syncer.rules.network.attachments import definitions, selections
from syncer.rules.network.attachments.selections import (
    DEFAULT_NETWORK,
    NETWORKS,
    SelectionContext,
)
from tests.support.syncer.attachments import attachment_view, bridge, definition

MINE = "default-abc123-vc-"


def context(*, primary="", **fields):
    view = attachment_view(**fields)

    def find(namespace, name):
        if (namespace, name) != ("web", "lab"):
            return None
        return definitions.read_attachment(definition(bridge())["spec"], view)[1]

    return SelectionContext(
        attachments=view.policy.network.attachments,
        get_super_namespace=view.get_super_namespace,
        find_segment=find,
        primary=primary,
    )


def translate(text, key=NETWORKS, **fields):
    found = selections.translate_annotations({key: text}, "web", context(**fields))
    return json.loads(found[key])


def refused(text, key=NETWORKS, **fields):
    with pytest.raises(RejectedError) as problem:
        translate(text if isinstance(text, str) else json.dumps(text), key, **fields)
    return str(problem.value)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("lab", [{"name": "lab", "namespace": f"{MINE}web"}]),
        ("db/lab@net7", [{"name": "lab", "namespace": f"{MINE}db", "interface": "net7"}]),
        (
            " lab , db/lab ",
            [
                {"name": "lab", "namespace": f"{MINE}web"},
                {"name": "lab", "namespace": f"{MINE}db"},
            ],
        ),
        ('[{"name":"lab"}]', [{"name": "lab", "namespace": f"{MINE}web"}]),
        (
            '[{"name":"lab","namespace":"web","ips":["10.100.8.9/16"],"interface":"x1"}]',
            [
                {
                    "name": "lab",
                    "namespace": f"{MINE}web",
                    "interface": "x1",
                    "ips": ["10.100.8.9/16"],
                }
            ],
        ),
        (
            '[{"name":"lab","default-route":["10.100.0.1"]}]',
            [{"name": "lab", "namespace": f"{MINE}web", "default-route": ["10.100.0.1"]}],
        ),
    ],
)
def test_both_forms_become_json_with_the_super_namespace(text, wanted):
    assert translate(text) == wanted


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a/b/c", "must list networks"),
        ("/lab", "must list networks"),
        ("lab@", "must list networks"),
        (",", "must list networks"),
        ("Lab", "must list networks"),
        ("lab@eth0", "interface"),
        ("lab@a/b", "must list networks"),
        ("lab@" + "x" * 16, "interface"),
        ("lab," * 20 + "lab", "Name at most 16"),
        ("x" * 9000, "longer than"),
        ('{"name":"lab"}', "must list networks"),
        ('[{"name":"lab","name":"other"}]', "occurs twice"),
        ('[{"name":"lab","Namespace":"kube-system"}]', "Namespace"),
        ('[{"name":"lab","cni-args":{"x":1}}]', "cni-args"),
        ('[{"name":"lab","portMappings":[{"hostPort":22}]}]', "portMappings"),
        ('[{"name":"lab","infiniband-guid":"c2:11:22:33:44:55:66:77"}]', "infiniband-guid"),
        ('[{"name":"lab","ips":"10.100.8.9"}]', "ips"),
        ('[{"name":"lab","ips":["10.100.12.9"]}]', "Choose an address of 10.100.8.0/22"),
        ('[{"name":"gone","ips":["10.100.8.9"]}]', "does not exist"),
        ('[{"name":"lab","default-route":["10.9.0.1"]}]', "gateway 10.9.0.1"),
        ('[{"name":"lab","mac":"02:00:00:00:00:01"}]', "Remove mac"),
        ("[" * 5000, "no valid JSON"),
    ],
)
def test_anything_else_is_refused(text, part):
    assert part in refused(text)


def test_a_mac_address_by_policy_is_local_and_unicast():
    said = '[{"name":"lab","mac":"%s"}]'
    assert translate(said % "02:00:00:00:00:01", macAddresses="Allow")
    for bad in ("00:00:00:00:00:01", "03:00:00:00:00:01", "02:00", "x"):
        assert "unicast" in refused(said % bad, macAddresses="Allow")


def test_a_default_network_is_closed_unless_the_policy_opens_it():
    assert "is not offered" in refused("lab", DEFAULT_NETWORK)
    opened = translate("lab", DEFAULT_NETWORK, defaultNetwork="Allow")
    assert opened == [{"name": "lab", "namespace": f"{MINE}web"}]
    assert "at most 1" in refused("lab,lab", DEFAULT_NETWORK, defaultNetwork="Allow")


def test_a_tenant_with_a_network_of_its_own_gets_it_on_each_pod():
    default = selections.build_default(f"{MINE}web", "vc-network")
    own = context(primary=default)
    assert selections.translate_annotations({}, "web", own) == {DEFAULT_NETWORK: default}
    both = selections.translate_annotations({NETWORKS: "lab"}, "web", own)
    assert set(both) == {DEFAULT_NETWORK, NETWORKS}
    with pytest.raises(RejectedError, match="is set by the network of this cluster"):
        selections.translate_annotations({DEFAULT_NETWORK: "lab"}, "web", own)


def test_where_nothing_is_offered_a_notice_names_the_annotation():
    found = selections.find_left_out({NETWORKS: "lab", "x": "y"})
    assert [each.rule for each in found] == ["pod-networks"]


TEXT = st.text(alphabet='abkube-system/@,[]{}":. \\u0', max_size=40)
ITEM = st.dictionaries(
    st.sampled_from(["name", "namespace", "interface", "ips", "mac", "cni-args", "NAMESPACE"]),
    st.one_of(
        st.sampled_from(["lab", "kube-system", "default-def456-other-web", "web", "../x", "*"]),
        st.lists(st.text(max_size=8), max_size=2),
        st.none(),
    ),
    max_size=5,
)


@given(st.one_of(TEXT, st.lists(ITEM, max_size=4).map(json.dumps)), st.sampled_from(["web", "db"]))
def test_no_name_outside_of_the_tenant_ever_leaves(text, namespace):
    """Whatever the tenant writes, each namespace in the result is one of its super namespaces."""
    try:
        found = selections.translate_annotations({NETWORKS: text}, namespace, context())
    except RejectedError:
        return
    for item in json.loads(found.get(NETWORKS, "[]")):
        assert item["namespace"].startswith(MINE)
        assert set(item) <= {"name", "namespace", "interface", "ips", "mac", "default-route"}
