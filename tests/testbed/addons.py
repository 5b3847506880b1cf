"""What a usable cluster has besides its nodes: DNS, and a default StorageClass.

Hazard: nothing here waits; a cluster is up when its node is Ready, and pods come after that.
"""

from __future__ import annotations

import string
from pathlib import Path

import yaml

from tests.testbed import images
from tests.testbed.api import Api, Object
from tests.testbed.topology import Topology

MANIFESTS = Path(__file__).resolve().parent / "manifests"


def documents(topology: Topology) -> list[Object]:
    """The objects of all add-ons."""
    values = {
        "coredns": images.name_of("coredns"),
        "dns_ip": str(topology.dns_ip),
        "busybox": images.BUSYBOX,
        "provisioner": images.name_of("local-path-provisioner"),
    }
    found: list[Object] = []
    for file in sorted(MANIFESTS.glob("*.yaml")):
        text = string.Template(file.read_text()).substitute(values)
        found += [document for document in yaml.safe_load_all(text) if document]
    return found


def install(api: Api, topology: Topology) -> None:
    """Apply all add-ons."""
    for document in documents(topology):
        api.apply(document)
