"""CustomResourceDefinitions of other projects, as their Go modules have them.

The name of a file is module, version and kind. The folder is `core/config/crd/bases` in the module
`sigs.k8s.io/cluster-api`, and `config/crd/bases` in `sigs.k8s.io/cluster-inventory-api`. Both
modules are under the Apache License 2.0.
"""

import lzma
from pathlib import Path

import yaml

from kubeio import Object

CLUSTERS = "cluster-api-v1.14.2-clusters"
CLUSTER_PROFILES = "cluster-inventory-api-v0.1.0-clusterprofiles"


def load_definition(name: str) -> Object:
    """Return one CustomResourceDefinition."""
    packed = (Path(__file__).parent / f"{name}.yaml.xz").read_bytes()
    found = yaml.safe_load(lzma.decompress(packed))
    assert isinstance(found, dict)
    return found
