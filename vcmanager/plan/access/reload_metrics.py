"""Metrics of an API server about the reload of its authentication configuration.

Pure (k8s.io/apiserver/pkg/server/options/authenticationconfig/metrics/metrics.go).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

PREFIX = b"apiserver_authentication_config_controller_"
MAX_BYTES = 32 * 1024 * 1024
"""Bytes of the metrics of one API server. A fresh one has 1 to 4 MiB, and each kind adds some."""
_LINE = re.compile(rb"(?P<name>[a-z_]+)\{(?P<labels>[^}]*)\} (?P<value>[-+.0-9eE]+)$")
_LABEL = re.compile(rb'(?P<key>[a-z_]+)="(?P<value>[^"]*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadState:
    """The configuration that an API server uses, and its last failure to use another."""

    hash: str = ""
    failed: datetime | None = None
    """Time of the last failure. None: there was none since the last success."""


def parse_metrics(lines: Iterable[bytes]) -> ReloadState:
    """Return the state. Lines of other metrics are ignored."""
    used, times = "", {b"success": 0.0, b"failure": 0.0}
    for line in lines:
        match = _LINE.fullmatch(line.strip())
        if match is None or not match["name"].startswith(PREFIX):
            continue
        name = match["name"].removeprefix(PREFIX)
        labels = {each["key"]: each["value"] for each in _LABEL.finditer(match["labels"])}
        if name == b"last_config_info":
            used = labels.get(b"hash", b"").decode("ascii", "replace")
        elif name == b"automatic_reload_last_timestamp_seconds":
            times[labels.get(b"status", b"")] = float(match["value"])
    failed = times[b"failure"] > times[b"success"]
    return ReloadState(
        hash=used, failed=datetime.fromtimestamp(times[b"failure"], UTC) if failed else None
    )
