"""Metrics `/metrics/resource` of one tenant's pods, for `kubectl top` and autoscalers. Pure.

The module owns the families that pass, and how their text is parsed and written. It must not know
the caller. Hazard: a line that does not match one strict grammar must refuse the answer, and each
line must be rewritten. Otherwise a line that a scraper reads in another way could pass the filter.
The text has no UID, so a pod is found in the list of pods by super namespace and name, as for logs.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vnagent.authz.pod_authorizer import OwnedPod
from vnagent.nodeapi.cpu_counters import PodUsage, TotalFunction
from vnagent.nodeapi.json_filters import cap_count
from vnagent.protocol.http_heads import InvalidResponseError

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

_CONTAINER_LABELS = frozenset({"container", "pod", "namespace"})
_POD_LABELS = frozenset({"pod", "namespace"})
_NO_LABELS: frozenset[str] = frozenset()
_POD_CPU, _NODE_CPU = "pod_cpu_usage_seconds_total", "node_cpu_usage_seconds_total"
_POD_MEMORY, _NODE_MEMORY = "pod_memory_working_set_bytes", "node_memory_working_set_bytes"
_POD_SWAP, _NODE_SWAP = "pod_swap_usage_bytes", "node_swap_usage_bytes"


@dataclass(frozen=True, slots=True)
class _Family:
    labels: frozenset[str]
    kind: str
    help_text: str


# The order is that of a registry. Metrics of the node are not listed and are dropped, because the
# sums of the tenant's own pods replace them. Limits of swap are dropped, because they are shares of
# the node's.
_FAMILIES = {
    "container_cpu_usage_seconds_total": _Family(
        _CONTAINER_LABELS,
        "counter",
        "Cumulative cpu time consumed by the container in core-seconds",
    ),
    "container_memory_working_set_bytes": _Family(
        _CONTAINER_LABELS, "gauge", "Current working set of the container in bytes"
    ),
    "container_start_time_seconds": _Family(
        _CONTAINER_LABELS, "gauge", "Start time of the container since unix epoch in seconds"
    ),
    "container_swap_usage_bytes": _Family(
        _CONTAINER_LABELS, "gauge", "Current amount of the container swap usage in bytes"
    ),
    _NODE_CPU: _Family(
        _NO_LABELS, "counter", "Cumulative cpu time consumed by this cluster's pods in core-seconds"
    ),
    _NODE_MEMORY: _Family(
        _NO_LABELS, "gauge", "Current working set of this cluster's pods in bytes"
    ),
    _NODE_SWAP: _Family(_NO_LABELS, "gauge", "Current swap usage of this cluster's pods in bytes"),
    _POD_CPU: _Family(
        _POD_LABELS, "counter", "Cumulative cpu time consumed by the pod in core-seconds"
    ),
    _POD_MEMORY: _Family(_POD_LABELS, "gauge", "Current working set of the pod in bytes"),
    _POD_SWAP: _Family(_POD_LABELS, "gauge", "Current amount of the pod swap usage in bytes"),
    "resource_scrape_error": _Family(
        _NO_LABELS, "gauge", "1 if there was an error while getting container metrics, 0 otherwise"
    ),
    "scrape_error": _Family(
        _NO_LABELS, "gauge", "1 if there was an error while getting container metrics, 0 otherwise"
    ),
}
_NODE_SUMS = {_NODE_CPU: _POD_CPU, _NODE_MEMORY: _POD_MEMORY, _NODE_SWAP: _POD_SWAP}
"""Metrics that replace those of the node, and their sources."""
_LAST_FAMILIES = frozenset({"resource_scrape_error", "scrape_error"})
"""Families of which every valid answer has one. An answer without any is refused."""

_LABEL_PATTERN = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
_LINE_PATTERN = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)"
    rf"(?:\{{(?P<labels>(?:{_LABEL_PATTERN}(?:,{_LABEL_PATTERN})*,?)?)\}})?"
    r" (?P<value>[^\s{}\"]+)(?: (?P<time>-?[0-9]{1,18}))?",
    re.ASCII,
)
_PAIR_PATTERN = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"', re.ASCII)
_VALUE_PATTERN = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,20})?(?:e[+-]?[0-9]{1,2})?", re.ASCII)
_ESCAPE_PATTERN = re.compile(r'\\(["\\n])')

_Key = tuple[str, ...]
"""Name of a family and the values of its labels, in the order of their names."""


@dataclass(frozen=True, slots=True)
class _Sample:
    family: str
    labels: tuple[tuple[str, str], ...]
    value: str
    time: str

    @property
    def key(self) -> _Key:
        return (self.family, *(value for _, value in self.labels))


def filter_metrics(document: bytes, pods: Iterable[OwnedPod], total: TotalFunction) -> bytes:
    """Return the metrics of these pods only, with the tenant's names.

    Raises ResponseProblemError if the kubelet's answer cannot be read.
    """
    by_place = {(pod.super_namespace, pod.name): pod for pod in pods}
    samples: dict[_Key, _Sample | None] = {}
    uids: dict[_Key, str] = {}
    for sample in _parse_samples(document):
        shown = sample
        if sample.labels:
            labels = dict(sample.labels)
            pod = by_place.get((labels["namespace"], labels["pod"]))
            if pod is None or not {labels.get("container")} <= {None, *pod.containers}:
                continue
            shown = _rename_sample(sample, pod)
            uids[shown.key] = pod.super_uid
        # A repeated sample is dropped, because a scraper could use either.
        samples[shown.key] = None if shown.key in samples else shown
    found = [sample for sample in samples.values() if sample is not None]
    used = {uids[one.key]: _read_usage(one) for one in found if one.family == _POD_CPU}
    return _encode_samples([*found, *_sum_for_node(found, total(used))])


def _read_usage(sample: _Sample) -> PodUsage:
    nanoseconds = cap_count(round(float(sample.value) * 1e9))
    return PodUsage(nanoseconds, int(sample.time) / 1000) if sample.time else PodUsage(nanoseconds)


def _parse_samples(document: bytes) -> Iterable[_Sample]:
    """Return the samples of the families that pass."""
    try:
        lines = document.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise _build_unreadable() from error
    if lines.pop():
        raise _build_unreadable()  # the last line is cut off
    found: list[_Sample] = []
    for line in lines:
        if not line or line.startswith("#"):
            continue
        read = _LINE_PATTERN.fullmatch(line)
        if read is None:
            raise _build_unreadable()
        family = _FAMILIES.get(read["name"])
        if (
            family is None
            or read["name"] in _NODE_SUMS
            or _VALUE_PATTERN.fullmatch(read["value"]) is None
        ):
            continue
        pairs = [
            (name, _unescape(value)) for name, value in _PAIR_PATTERN.findall(read["labels"] or "")
        ]
        labels = dict(pairs)
        if len(labels) == len(pairs) and labels.keys() == family.labels:
            ordered = tuple(sorted(labels.items()))
            found.append(_Sample(read["name"], ordered, read["value"], read["time"] or ""))
    if not any(sample.family in _LAST_FAMILIES for sample in found):
        raise _build_unreadable()
    return found


def _build_unreadable() -> InvalidResponseError:
    return InvalidResponseError("the node's kubelet returned no readable metrics")


def _rename_sample(sample: _Sample, pod: OwnedPod) -> _Sample:
    labels = {**dict(sample.labels), "namespace": pod.tenant_namespace}
    return _Sample(sample.family, tuple(labels.items()), sample.value, sample.time)


def _sum_for_node(samples: Iterable[_Sample], cpu_nanoseconds: int) -> Iterable[_Sample]:
    """Return the sums that replace the node's metrics, at the latest time."""
    by_family = _group_by_family(samples)
    for target, source in _NODE_SUMS.items():
        parts = by_family.get(source)
        if not parts:
            continue
        times = [int(part.time) for part in parts if part.time]
        value = cpu_nanoseconds / 1e9 if target == _NODE_CPU else sum(float(p.value) for p in parts)
        yield _Sample(target, (), repr(value), str(max(times)) if times else "")


def _encode_samples(samples: Iterable[_Sample]) -> bytes:
    by_family = _group_by_family(samples)
    lines: list[str] = []
    for name, family in _FAMILIES.items():
        if name not in by_family:
            continue
        lines += (f"# HELP {name} {family.help_text}", f"# TYPE {name} {family.kind}")
        lines += (_format_sample(sample) for sample in by_family[name])
    return "".join(f"{line}\n" for line in lines).encode()


def _group_by_family(samples: Iterable[_Sample]) -> Mapping[str, Sequence[_Sample]]:
    found: dict[str, list[_Sample]] = {}
    for sample in samples:
        found.setdefault(sample.family, []).append(sample)
    return found


def _format_sample(sample: _Sample) -> str:
    labels = ",".join(f'{name}="{_escape(value)}"' for name, value in sample.labels)
    name = f"{sample.family}{{{labels}}}" if labels else sample.family
    return " ".join(filter(None, (name, sample.value, sample.time)))


def _unescape(quoted: str) -> str:
    return _ESCAPE_PATTERN.sub(lambda found: "\n" if found[1] == "n" else found[1], quoted)


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
