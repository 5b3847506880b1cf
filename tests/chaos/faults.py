"""Faults of requests and watches: the errors, the requests that they are for, and their order.

Owns what both drivers share: the choice of a fault by the numbers of a step, the count of requests
until it strikes, and what happens to watches that fall behind. Each driver has a table of faults of
its own, by these names, with the effect that its network can produce.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
CHANGES = WRITES - {"POST"}
READS = frozenset({"GET"})
ANY = WRITES | READS

METHODS: Mapping[str, frozenset[str]] = {
    "lost": ANY,
    "late": WRITES,
    "409": CHANGES,
    "410": READS,
    "429": ANY,
    "500": ANY,
    "503": ANY,
    "504": WRITES,
    "504 done": WRITES,
}
"""Methods of the requests that a fault is for, by the name that it has in both drivers."""


class ErrorAnswer(NamedTuple):
    """Answer in the place of the server."""

    code: int
    reason: str
    retry_after: int | None = None
    """Seconds after which the client may come again."""


ANSWERS: Mapping[str, ErrorAnswer] = {
    "409": ErrorAnswer(409, "Conflict"),
    "410": ErrorAnswer(410, "Expired"),
    "429": ErrorAnswer(429, "TooManyRequests", retry_after=1),
    "500": ErrorAnswer(500, "InternalError"),
    "503": ErrorAnswer(503, "ServiceUnavailable", retry_after=1),
    "504": ErrorAnswer(504, "Timeout"),
    "504 done": ErrorAnswer(504, "Timeout"),
}
"""By the name of the fault. A request that gets `504 done` takes effect, the others do not."""


@dataclass
class ArmedFault:
    """A fault that waits for its requests."""

    side: str
    kind: str
    seconds: float
    skip: int
    """Requests that it lets through first."""
    count: int
    """Requests that it befalls then."""


def arm(side: str, kinds: Sequence[str], numbers: Sequence[int]) -> ArmedFault:
    """Return the fault that the numbers of a step choose."""
    return ArmedFault(
        side=side,
        kind=kinds[numbers[1] % len(kinds)],
        seconds=(0.01, 0.2, 1.0, 4.0)[numbers[2] % 4],
        skip=(0, 0, 1, 3, 8)[numbers[3] % 5],
        count=(1, 1, 2, 5, 20)[numbers[4] % 5],
    )


def take_strike(
    armed: list[ArmedFault], side: str, befalls: Callable[[str], bool]
) -> ArmedFault | None:
    """Return the armed fault that strikes a request, and count the request.

    `befalls` returns whether a kind of fault is for this request.
    """
    for fault in armed:
        if fault.side != side or not befalls(fault.kind):
            continue
        if fault.skip:
            fault.skip -= 1
            continue
        fault.count -= 1
        if not fault.count:
            armed.remove(fault)
        return fault
    return None


# --- watches --------------------------------------------------------------------------------------

W = TypeVar("W")


def select_cut(watches: Sequence[W], numbers: Sequence[int]) -> list[W]:
    """Return the watches that break: all of them, or each third."""
    return [
        watch
        for number, watch in enumerate(watches)
        if numbers[1] % 2 or number % 3 == numbers[2] % 3
    ]


def select_held(watches: Sequence[W], numbers: Sequence[int]) -> list[W]:
    """Return the watches that fall behind: all of them, or a few."""
    return list(watches if numbers[1] % 3 else watches[: 1 + numbers[2] % 4])


def _twice(lines: list[bytes]) -> list[bytes]:
    return [line for line in lines for _ in range(2)]


def _backwards(lines: list[bytes]) -> list[bytes]:
    return lines[::-1]


def _again(lines: list[bytes]) -> list[bytes]:
    return [*lines, *lines]


def _garbled(lines: list[bytes]) -> list[bytes]:
    return [*lines[:-1], *(line[: len(line) // 2] + b"\n" for line in lines[-1:])]


_ORDERS: tuple[Callable[[list[bytes]], Sequence[bytes]], ...] = (
    *(list, list),
    *(_twice, _backwards, _again, _garbled),
)


def get_order(numbers: Sequence[int]) -> Callable[[list[bytes]], Sequence[bytes]]:
    """Return the order in which a watch that fell behind sends its lines in the end."""
    return _ORDERS[numbers[3] % len(_ORDERS)]
