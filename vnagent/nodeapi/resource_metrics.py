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
from vnagent.nodeapi.cpu_counters import Total, Used
from vnagent.nodeapi.json_filters import capped
from vnagent.protocol.http_heads import ResponseProblemError

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

_CONTAINER = frozenset({"container", "pod", "namespace"})
_POD = frozenset({"pod", "namespace"})
_NONE: frozenset[str] = frozenset()
_POD_CPU, _NODE_CPU = "pod_cpu_usage_seconds_total", "node_cpu_usage_seconds_total"
_POD_MEMORY, _NODE_MEMORY = "pod_memory_working_set_bytes", "node_memory_working_set_bytes"
_POD_SWAP, _NODE_SWAP = "pod_swap_usage_bytes", "node_swap_usage_bytes"


@dataclass(frozen=True, slots=True)
class _Family:
    labels: frozenset[str]
    kind: str
    about: str


# The order is that of a registry. Metrics of the node are not listed and are dropped, because the
# sums of the tenant's own pods replace them. Limits of swap are dropped, because they are shares of
# the node's.
_FAMILIES = {
    "container_cpu_usage_seconds_total": _Family(
        _CONTAINER, "counter", "Cumulative cpu time consumed by the container in core-seconds"
    ),
    "container_memory_working_set_bytes": _Family(
        _CONTAINER, "gauge", "Current working set of the container in bytes"
    ),
    "container_start_time_seconds": _Family(
        _CONTAINER, "gauge", "Start time of the container since unix epoch in seconds"
    ),
    "container_swap_usage_bytes": _Family(
        _CONTAINER, "gauge", "Current amount of the container swap usage in bytes"
    ),
    _NODE_CPU: _Family(
        _NONE, "counter", "Cumulative cpu time consumed by this cluster's pods in core-seconds"
    ),
    _NODE_MEMORY: _Family(_NONE, "gauge", "Current working set of this cluster's pods in bytes"),
    _NODE_SWAP: _Family(_NONE, "gauge", "Current swap usage of this cluster's pods in bytes"),
    _POD_CPU: _Family(_POD, "counter", "Cumulative cpu time consumed by the pod in core-seconds"),
    _POD_MEMORY: _Family(_POD, "gauge", "Current working set of the pod in bytes"),
    _POD_SWAP: _Family(_POD, "gauge", "Current amount of the pod swap usage in bytes"),
    "resource_scrape_error": _Family(
        _NONE, "gauge", "1 if there was an error while getting container metrics, 0 otherwise"
    ),
    "scrape_error": _Family(
        _NONE, "gauge", "1 if there was an error while getting container metrics, 0 otherwise"
    ),
}
_SUMS = {_NODE_CPU: _POD_CPU, _NODE_MEMORY: _POD_MEMORY, _NODE_SWAP: _POD_SWAP}
"""Metrics that replace those of the node, and their sources."""
_ENDS = frozenset({"resource_scrape_error", "scrape_error"})
"""Families of which every valid answer has one. An answer without any is refused."""

_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
_LINE = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)"
    rf"(?:\{{(?P<labels>(?:{_LABEL}(?:,{_LABEL})*,?)?)\}})?"
    r" (?P<value>[^\s{}\"]+)(?: (?P<time>-?[0-9]{1,18}))?",
    re.ASCII,
)
_PAIR = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"', re.ASCII)
_VALUE = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,20})?(?:e[+-]?[0-9]{1,2})?", re.ASCII)
_ESCAPED = re.compile(r'\\(["\\n])')

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


def reduce(document: bytes, pods: Iterable[OwnedPod], total: Total) -> bytes:
    """Return the metrics of these pods only, with the tenant's names.

    Raises ResponseProblemError if the kubelet's answer cannot be read.
    """
    by_place = {(pod.super_namespace, pod.name): pod for pod in pods}
    samples: dict[_Key, _Sample | None] = {}
    uids: dict[_Key, str] = {}
    for sample in _read(document):
        shown = sample
        if sample.labels:
            labels = dict(sample.labels)
            pod = by_place.get((labels["namespace"], labels["pod"]))
            if pod is None or not {labels.get("container")} <= {None, *pod.containers}:
                continue
            shown = _renamed(sample, pod)
            uids[shown.key] = pod.super_uid
        # A repeated sample is dropped, because a scraper could use either.
        samples[shown.key] = None if shown.key in samples else shown
    found = [sample for sample in samples.values() if sample is not None]
    used = {uids[one.key]: _used(one) for one in found if one.family == _POD_CPU}
    return _write([*found, *_sums(found, total(used))])


def _used(sample: _Sample) -> Used:
    nanoseconds = capped(round(float(sample.value) * 1e9))
    return Used(nanoseconds, int(sample.time) / 1000) if sample.time else Used(nanoseconds)


def _read(document: bytes) -> Iterable[_Sample]:
    """Return the samples of the families that pass."""
    try:
        lines = document.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise _unreadable() from error
    if lines.pop():
        raise _unreadable()  # the last line is cut off
    found: list[_Sample] = []
    for line in lines:
        if not line or line.startswith("#"):
            continue
        read = _LINE.fullmatch(line)
        if read is None:
            raise _unreadable()
        family = _FAMILIES.get(read["name"])
        if family is None or read["name"] in _SUMS or _VALUE.fullmatch(read["value"]) is None:
            continue
        pairs = [(name, _plain(value)) for name, value in _PAIR.findall(read["labels"] or "")]
        labels = dict(pairs)
        if len(labels) == len(pairs) and labels.keys() == family.labels:
            ordered = tuple(sorted(labels.items()))
            found.append(_Sample(read["name"], ordered, read["value"], read["time"] or ""))
    if not any(sample.family in _ENDS for sample in found):
        raise _unreadable()
    return found


def _unreadable() -> ResponseProblemError:
    return ResponseProblemError("the node's kubelet gave no metrics that can be read")


def _renamed(sample: _Sample, pod: OwnedPod) -> _Sample:
    labels = {**dict(sample.labels), "namespace": pod.tenant_namespace}
    return _Sample(sample.family, tuple(labels.items()), sample.value, sample.time)


def _sums(samples: Iterable[_Sample], cpu_nanoseconds: int) -> Iterable[_Sample]:
    """Return the sums that replace the node's metrics, at the latest time."""
    by_family = _by_family(samples)
    for target, source in _SUMS.items():
        parts = by_family.get(source)
        if not parts:
            continue
        times = [int(part.time) for part in parts if part.time]
        value = cpu_nanoseconds / 1e9 if target == _NODE_CPU else sum(float(p.value) for p in parts)
        yield _Sample(target, (), repr(value), str(max(times)) if times else "")


def _write(samples: Iterable[_Sample]) -> bytes:
    by_family = _by_family(samples)
    lines: list[str] = []
    for name, family in _FAMILIES.items():
        if name not in by_family:
            continue
        lines += (f"# HELP {name} {family.about}", f"# TYPE {name} {family.kind}")
        lines += (_line(sample) for sample in by_family[name])
    return "".join(f"{line}\n" for line in lines).encode()


def _by_family(samples: Iterable[_Sample]) -> Mapping[str, Sequence[_Sample]]:
    found: dict[str, list[_Sample]] = {}
    for sample in samples:
        found.setdefault(sample.family, []).append(sample)
    return found


def _line(sample: _Sample) -> str:
    labels = ",".join(f'{name}="{_quoted(value)}"' for name, value in sample.labels)
    name = f"{sample.family}{{{labels}}}" if labels else sample.family
    return " ".join(filter(None, (name, sample.value, sample.time)))


def _plain(quoted: str) -> str:
    return _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], quoted)


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
