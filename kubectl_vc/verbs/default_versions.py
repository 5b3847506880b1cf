"""Default ClusterVersion of a VirtualCluster that names none. Pure.

Owns the choice. Hazard: the choice must not depend on a version that was added for one tenant.
Only a marked ClusterVersion, the only one, or one that is named after its minor is chosen.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kubectl_vc.output.cli_errors import CliError
from tenancy import wellknown

_MINOR_NAME = re.compile(r"v(\d+)\.(\d+)")


def choose_cluster_version(found: Sequence[Mapping[str, Any]]) -> str:
    """Return the name of the default ClusterVersion. Raises CliError without a clear choice.

    It is the one with the annotation, otherwise the only one, otherwise the newest of those with a
    name such as v1.36.
    """
    names = sorted(str(each["metadata"]["name"]) for each in found)
    if not names:
        raise CliError("there is no ClusterVersion in the super cluster yet. Apply one first.")
    marked = sorted(str(each["metadata"]["name"]) for each in found if _is_marked(each))
    if len(marked) > 1:
        raise CliError(
            f"the ClusterVersions {', '.join(marked)} are all marked as the default. Choose one"
            " with --cluster-version, or remove the annotation from the others."
        )
    minors = [name for name in names if _MINOR_NAME.fullmatch(name)]
    if marked or len(names) == 1:
        return (marked or names)[0]
    if not minors:
        raise CliError(
            f"no ClusterVersion was named, and none is the default. Choose one of"
            f" {', '.join(names)} with --cluster-version, or in spec.clusterVersionName of the"
            " manifest."
        )
    return max(minors, key=_parse_minor)


def _is_marked(body: Mapping[str, Any]) -> bool:
    annotations = body["metadata"].get("annotations") or {}
    return bool(annotations.get(wellknown.DEFAULT_CLUSTER_VERSION) == "true")


def _parse_minor(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.removeprefix("v").split("."))
