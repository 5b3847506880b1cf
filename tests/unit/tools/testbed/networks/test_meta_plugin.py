"""The stand-in for Multus: its reading of annotations, its order, and its status."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tools.testbed.networks import meta_plugin
from tools.testbed.networks.meta_plugin import Attachment, PluginError, Selection


class Definitions:
    """The API server of a test: definitions by namespace and name."""

    def __init__(self, **found: Any) -> None:
        self.found = found

    def get(self, path: str) -> dict[str, Any]:
        *_, namespace, _, name = path.split("/")
        return {"spec": {"config": self.found[f"{namespace}_{name}"]}}


CONFIG = {"delegate": {"cniVersion": "1.0.0", "name": "cbr0", "plugins": [{"type": "bridge"}]}}
LAB = json.dumps({"cniVersion": "1.0.0", "name": "lab", "type": "macvlan"})


def attached(annotations: dict[str, str], **found: Any) -> list[Attachment]:
    pod = {"metadata": {"name": "p", "namespace": "web", "annotations": annotations}}
    api: Any = Definitions(**found)
    return list(meta_plugin.list_attachments(api, pod, CONFIG, "eth0"))


def test_both_forms_of_the_annotation_are_read_as_multus_reads_them():
    short = meta_plugin.parse_selections("lab, db/lab@x1", "web")
    assert short == [Selection("web", "lab", "net1"), Selection("db", "lab", "x1")]
    text = '[{"name":"lab","namespace":"db","ips":["10.0.0.1/8"],"mac":"02:00:00:00:00:01"}]'
    (found,) = meta_plugin.parse_selections(text, "web")
    assert found == Selection("db", "lab", "net1", ("10.0.0.1/8",), "02:00:00:00:00:01")
    assert meta_plugin.parse_selections("", "web") == []


def test_the_default_network_is_first_and_may_be_replaced():
    plain = attached({meta_plugin.NETWORKS: "lab"}, web_lab=LAB)
    assert [(each.interface, each.name, each.is_default) for each in plain] == [
        ("eth0", "cbr0", True),
        ("net1", "web/lab", False),
    ]
    replaced = attached({meta_plugin.DEFAULT_NETWORK: "web/lab"}, web_lab=LAB)
    assert [(each.interface, each.name) for each in replaced] == [("eth0", "web/lab")]
    # As in Multus: without a namespace it is one of the super cluster's own.
    assert attached({meta_plugin.DEFAULT_NETWORK: "lab"}, **{"kube-system_lab": LAB})


def test_a_definition_without_a_configuration_is_an_error():
    with pytest.raises(PluginError, match="web/lab has no configuration"):
        attached({meta_plugin.NETWORKS: "lab"}, web_lab="")


def test_a_single_plugin_is_a_list_of_one():
    assert meta_plugin.as_list(json.loads(LAB)) == {
        "cniVersion": "1.0.0",
        "name": "lab",
        "plugins": [{"type": "macvlan"}],
    }
    assert meta_plugin.as_list(CONFIG["delegate"]) is CONFIG["delegate"]


def test_whereabouts_gets_the_file_of_the_node_with_its_access(tmp_path):
    network = {"name": "lab", "plugins": [{"type": "bridge", "ipam": {"type": "whereabouts"}}]}
    attachment = Attachment("net1", network, "web/lab", False, {})
    config = {"kubeconfig": "/k", "stateDir": str(tmp_path)}
    found = meta_plugin._prepare_network(attachment, config)
    file = tmp_path / "whereabouts.conf"
    assert found["plugins"][0]["ipam"]["configuration_path"] == str(file)
    assert json.loads(file.read_text()) == {"kubernetes": {"kubeconfig": "/k"}}
    assert network["plugins"][0]["ipam"] == {"type": "whereabouts"}


def test_the_status_has_the_interface_of_the_pod():
    result = {
        "interfaces": [
            {"name": "veth1", "mac": "aa"},
            {"name": "net1", "mac": "bb", "sandbox": "/run/netns/x"},
        ],
        "ips": [{"address": "10.0.0.1/24"}],
    }
    found = meta_plugin.build_status(Attachment("net1", {}, "web/lab", False, {}), result)
    assert found == {
        "name": "web/lab",
        "interface": "net1",
        "ips": ["10.0.0.1"],
        "mac": "bb",
        "dns": {},
    }


@pytest.mark.parametrize(
    ("plugin", "replaced"),
    [
        (
            {"type": "bridge", "bridge": "br-trunk", "vlan": 1031, "preserveDefaultVlan": False},
            {"type": "bridge", "bridge": "br-trunk.1031", "mtu": 1450},
        ),
        ({"type": "bridge", "bridge": "br-trunk"}, None),
        ({"type": "macvlan", "master": "br-trunk"}, None),
    ],
)
def test_only_a_bridge_with_a_vlan_is_replaced(plugin: Any, replaced: Any):
    assert meta_plugin.replace_vlan(plugin) == (replaced or plugin)
