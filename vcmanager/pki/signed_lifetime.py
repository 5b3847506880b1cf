"""Life of the certificates that a tenant's controller manager signs with the client authority.

Pure. Hazard: the default must be that of kube-controller-manager. A shorter one would let a
rotation drop the old authority while certificates of it are valid.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

CONTROLLER_MANAGER = "controller-manager"
_FLAG = "--cluster-signing-duration"
DEFAULT_LIFETIME = timedelta(days=365)
"""Value of kube-controller-manager without the flag."""
_DURATION_PATTERN = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
"""One term of a Go duration (time.ParseDuration)."""
# Go accepts two letters for micro.
_UNIT_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
_MAX_SECONDS = 2**63 / 1e9
"""Longest Go duration."""


def compute_signed_lifetime(workloads: Iterable[Mapping[str, Any]]) -> timedelta:
    """Return the longest life of a certificate that the controller manager of a plan signs.

    Without a controller manager it is 0.
    """
    for workload in workloads:
        if workload["kind"] == "StatefulSet" and workload["metadata"]["name"] == CONTROLLER_MANAGER:
            return _read_flag(workload["spec"]["template"]["spec"])
    return timedelta(0)


def _read_flag(pod_spec: Mapping[str, Any]) -> timedelta:
    container = pod_spec["containers"][0]
    words = [str(each) for key in ("command", "args") for each in container.get(key) or ()]
    text = ""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        flag, separator, value = word.partition("=")
        if flag == _FLAG:
            text = value if separator else following  # the last one applies
    return _parse_duration(text) or DEFAULT_LIFETIME


def _parse_duration(text: str) -> timedelta | None:
    """Return a Go duration, or None if it is invalid or not positive."""
    if _DURATION_PATTERN.sub("", text):
        return None
    seconds = sum(float(n) * _UNIT_SECONDS[unit] for n, unit in _DURATION_PATTERN.findall(text))
    return timedelta(seconds=seconds) if 0 < seconds <= _MAX_SECONDS else None
