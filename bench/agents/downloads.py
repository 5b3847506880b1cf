"""Logs fetched by curl, one process per stream, so that a client costs the same at every door.

Owns start, wait and sums. A failed download fails the measurement.
"""

import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.agents.endpoints import ApiEntry

MEGABYTE = 1e6
_SECONDS = 300
"""Time limit in seconds of a download."""


class DownloadError(Exception):
    """A log was not received. The message has the result of curl."""


@dataclass(frozen=True, slots=True)
class FetchedLogs:
    """Logs that were fetched in parallel."""

    size: int
    """Bytes of all logs."""
    seconds: float
    """Seconds from the first start to the last end."""

    @property
    def megabytes_per_s(self) -> float:
        return self.size / MEGABYTE / self.seconds


def fetch(door: ApiEntry, target: str, *, streams: int = 1) -> FetchedLogs:
    """Fetch one log by so many parallel streams. Raises DownloadError."""
    begun = time.perf_counter()
    running = [
        subprocess.Popen(
            command(door, target), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(streams)
    ]
    told = [process.communicate() for process in running]
    seconds = time.perf_counter() - begun
    return FetchedLogs(added_up(door, target, told), seconds)


def command(door: ApiEntry, target: str) -> Sequence[str]:
    """Return the command that fetches a log and prints status and size."""
    return [
        *("curl", "--silent", "--show-error", "--http1.1", "--noproxy", "*"),
        *("--max-time", str(_SECONDS), "--output", "/dev/null"),
        *("--cacert", str(door.authority), "--cert", str(door.certificate)),
        *("--key", str(door.key), "--write-out", "%{http_code} %{size_download}"),
        door.url(target),
    ]


def added_up(door: ApiEntry, target: str, told: Iterable[tuple[str, str]]) -> int:
    """Return the bytes of all downloads, from their output. Raises DownloadError."""
    size = 0
    for printed, trouble in told:
        status, _, count = printed.partition(" ")
        if status != "200" or trouble:
            raise DownloadError(
                f"{target} from the {door.name} was answered {status or 'nothing'}: {trouble}"
            )
        size += int(count)
    return size
