"""Additional networks on the nodes of a cluster: `python -m tools.testbed.networks NAME`."""

from __future__ import annotations

import sys

from tools.testbed.cluster.handle import ClusterHandle
from tools.testbed.errors import TestbedError
from tools.testbed.networks import node_networks


def main(arguments: list[str]) -> int:
    """Enable the networks. Returns 0 afterwards."""
    try:
        node_networks.enable(ClusterHandle(arguments[0] if arguments else "super"))
    except TestbedError as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    sys.stdout.write(f"Nodes have the bridge {node_networks.TRUNK} and a stand-in for Multus.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
