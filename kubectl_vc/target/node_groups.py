"""Faults of Cluster API's node groups that cluster-autoscaler does not report.

Pure. Owns the checks of MachineDeployments and of the versions that read them. Must not know where
the objects come from.

Hazard: each message must name the annotation and its value. cluster-autoscaler leaves a group with
a bad value out without a word, so the user has no other hint.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kubectl_vc.target.check_results import CheckResult, CheckState
from tenancy import quantities

CHECK = "NodeGroups"
MIN_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
MAX_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
_CAPACITY = "capacity.cluster-autoscaler.kubernetes.io"
CPU, MEMORY, LABELS = f"{_CAPACITY}/cpu", f"{_CAPACITY}/memory", f"{_CAPACITY}/labels"
QUANTITIES = (CPU, MEMORY, f"{_CAPACITY}/ephemeral-disk")
COUNTS = (f"{_CAPACITY}/maxPods", f"{_CAPACITY}/gpu-count")
SYNCED_LABEL_DOMAINS = ("node-role.kubernetes.io", "node-restriction.kubernetes.io")
SYNCED_LABEL_PARENT = "node.cluster.x-k8s.io"

AUTOSCALER_IMAGE, CLUSTER_API_IMAGE = "cluster-autoscaler", "cluster-api-controller"
_MAX_SHOWN_CHARACTERS = 60
_INTEGER = re.compile(r"[+-]?[0-9]{1,9}")
_VERSION = re.compile(r"v?([0-9]{1,6})\.([0-9]{1,6})(?:\.([0-9]{1,6}))?")

Version = tuple[int, int, int]


class VersionRule(NamedTuple):
    """The oldest version of a program that does something with the labels of a node group."""

    image: str
    """Last part of the image's name."""
    program: str
    oldest: Version
    consequence: str


VERSION_RULES = (
    VersionRule(
        AUTOSCALER_IMAGE,
        "cluster-autoscaler",
        (1, 27, 1),
        "ignores the labels, and starts no node for a pod that selects one",
    ),
    VersionRule(
        CLUSTER_API_IMAGE,
        "Cluster API",
        (1, 4, 0),
        "does not copy labels to nodes, so no pod that selects one runs there",
    ),
)
"""Version pairs that the labels of a node group need.

https://github.com/kubernetes/autoscaler/blob/62d9c945786ff0a0b6942af269e8d5d05bee29fa/cluster-autoscaler/cloudprovider/clusterapi/clusterapi_utils.go#L38
https://github.com/kubernetes-sigs/cluster-api/blob/main/docs/proposals/20220927-label-sync-between-machine-and-nodes.md
"""


@dataclass(frozen=True, slots=True)
class NodeGroups:
    """MachineDeployments of one cluster, and the images of the programs that read them."""

    machine_deployments: Collection[Mapping[str, Any]]
    images: Collection[str]
    """Images of all Deployments. Empty if they may not be read."""


def list_check_results(target: str, groups: NodeGroups) -> list[CheckResult]:
    """Return the findings about all node groups. A group without a fault has one result `ok`."""
    found = [
        CheckResult(target, CHECK, state, f"{_format_name(body)}: {text}")
        for body in sorted(groups.machine_deployments, key=_format_name)
        for state, text in _check_group(body)
    ]
    labelled = [_format_name(one) for one in groups.machine_deployments if _read_labels(one)]
    if labelled:
        found += [CheckResult(target, CHECK, *each) for each in _check_versions(labelled, groups)]
    return found


def _check_group(body: Mapping[str, Any]) -> Iterator[tuple[CheckState, str]]:
    annotations = _read_annotations(body)
    if MIN_SIZE not in annotations and MAX_SIZE not in annotations:
        yield "note", _describe_missing_sizes()
        return
    faults = [
        *_check_sizes(annotations),
        *_check_amounts(annotations),
        *_check_zero(body, annotations),
    ]
    notes = list(_check_labels(body))
    for text in faults:
        yield "wrong", text
    for text in notes:
        yield "note", text
    if not (faults or notes):
        yield "ok", f"scales from {annotations.get(MIN_SIZE, '0')} to {annotations[MAX_SIZE]} nodes"


def _describe_missing_sizes() -> str:
    """Return the note about a group without limits. cluster-autoscaler leaves it alone.

    Its log then has `should not be processed by cluster autoscaler (no node group config)`.
    https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/clusterapi/README.md#enabling-autoscaling
    """
    return (
        "cluster-autoscaler does not scale it, because it has no limits. If it shall scale, set"
        f" {MIN_SIZE} and {MAX_SIZE}"
    )


def _check_sizes(annotations: Mapping[str, str]) -> Iterator[str]:
    """Yield the faults of the limits. A missing maximum counts as 0.

    https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/clusterapi/clusterapi_utils.go
    """
    sizes = dict[str, int]()
    for key in (MIN_SIZE, MAX_SIZE):
        value = annotations.get(key, "0")
        if _INTEGER.fullmatch(value) is None or int(value) < 0:
            yield f"{key} is {_show(value)}, and the group is ignored. Use a whole number from 0"
        else:
            sizes[key] = int(value)
    if len(sizes) < 2:
        return
    if MAX_SIZE not in annotations:
        yield f"{MAX_SIZE} is missing and counts as 0, so the group is ignored. Set it"
    elif sizes[MAX_SIZE] == 0:
        yield f"{MAX_SIZE} is 0, and the group is ignored. Set 1 or more"
    elif sizes[MAX_SIZE] < sizes[MIN_SIZE]:
        yield (
            f"{MAX_SIZE} is {sizes[MAX_SIZE]} and the minimum is {sizes[MIN_SIZE]}, so the group is"
            " ignored. Raise the maximum"
        )


def _check_amounts(annotations: Mapping[str, str]) -> Iterator[str]:
    """Yield the capacities that do not parse. A group of 0 nodes is ignored for one of them.

    https://github.com/kubernetes/apimachinery/blob/v0.27.1/pkg/api/resource/quantity.go
    """
    for key in QUANTITIES:
        value = annotations.get(key, "")
        if value and quantities.parse_quantity(value) is None:
            yield (
                f"{key} is {_show(value)}, which is no quantity, and the group is ignored at 0"
                " nodes. Use a number with a suffix such as 500m, 4, 16Gi or 16G"
            )
    for key in COUNTS:
        value = annotations.get(key, "")
        if value and _INTEGER.fullmatch(value) is None:
            yield (
                f"{key} is {_show(value)}, and the group is ignored at 0 nodes. Use a whole number"
            )


def _check_zero(body: Mapping[str, Any], annotations: Mapping[str, str]) -> Iterator[str]:
    """Yield the capacities that a group of 0 nodes lacks.

    An infrastructure provider may publish them in its machine template instead. The check cannot
    see which providers do.
    https://github.com/kubernetes-sigs/cluster-api/blob/main/docs/proposals/20210310-opt-in-autoscaling-from-zero.md
    """
    spec = body.get("spec")
    if not isinstance(spec, dict) or spec.get("replicas") != 0:
        return
    missing = [
        key
        for key in (CPU, MEMORY)
        if not annotations.get(key) or quantities.parse_quantity(annotations[key]) == 0
    ]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        yield (
            f"it has 0 nodes, and {' and '.join(missing)} {verb} missing or 0. cluster-autoscaler"
            " ignores it unless its machine template has status.capacity. Set"
            f" {'it' if len(missing) == 1 else 'both'} to a quantity above 0"
        )


def _check_labels(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the promised labels that Cluster API does not copy to the nodes.

    https://cluster-api.sigs.k8s.io/reference/api/metadata-propagation
    """
    template = _get(body, "spec", "template", "metadata", "labels")
    for key in _read_labels(body):
        domain = key.partition("/")[0] if "/" in key else ""
        is_synced = domain in SYNCED_LABEL_DOMAINS or (
            domain == SYNCED_LABEL_PARENT or domain.endswith(f".{SYNCED_LABEL_PARENT}")
        )
        if not is_synced:
            yield (
                f"{LABELS} has {_show(key)}, which Cluster API does not copy to nodes by default."
                " Set it with the kubelet's node-labels, or use a key of"
                f" {', '.join((*SYNCED_LABEL_DOMAINS, SYNCED_LABEL_PARENT))}"
            )
        elif key not in template:
            yield (
                f"{LABELS} has {_show(key)}, which new nodes do not get. Add it to"
                " spec.template.metadata.labels"
            )


def _check_versions(
    labelled: Collection[str], groups: NodeGroups
) -> Iterator[tuple[CheckState, str]]:
    where = f"{LABELS} of {', '.join(sorted(labelled))}"
    for rule in VERSION_RULES:
        oldest = _format_version(rule.oldest)
        versions = _list_versions(groups.images, rule.image)
        if not versions:
            text = (
                f"{where}: the version of {rule.program} was not found. Check that it is"
                f" {oldest} or newer"
            )
            yield "note", text
        for version in versions:
            if version < rule.oldest:
                text = (
                    f"{where}: {rule.program} {_format_version(version)} {rule.consequence}."
                    f" Upgrade it to {oldest} or newer"
                )
                yield "wrong", text


def _list_versions(images: Iterable[str], name: str) -> list[Version]:
    """Return the versions in the tags of the images of this name. Architectures are suffixes."""
    found = set[Version]()
    for image in images:
        repository, _, tag = image.partition("@")[0].rpartition(":")
        last = repository.rpartition("/")[2]
        numbers = _VERSION.match(tag)
        if numbers is not None and (last == name or last.startswith(f"{name}-")):
            major, minor, patch = (int(part or 0) for part in numbers.groups())
            found.add((major, minor, patch))
    return sorted(found)


def _format_version(version: Version) -> str:
    return ".".join(map(str, version))


def _read_labels(body: Mapping[str, Any]) -> list[str]:
    """Return the keys of the labels that a group promises for its nodes."""
    pairs = _read_annotations(body).get(LABELS, "").split(",")
    return [key for key, sign, _ in (pair.partition("=") for pair in pairs) if sign]


def _read_annotations(body: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in _get(body, "metadata", "annotations").items()}


def _get(body: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """Return the object at a path. Empty if there is none."""
    found: Any = body
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _format_name(body: Mapping[str, Any]) -> str:
    metadata = _get(body, "metadata")
    return f"MachineDeployment {metadata.get('namespace', '')}/{metadata.get('name', '')}"


def _show(value: str) -> str:
    """Return a value in quotes, shortened, without control characters."""
    return repr(value[:_MAX_SHOWN_CHARACTERS])
