"""Faults of a network or of a sick server in requests and watches, as a table.

Owns which requests each fault befalls and what becomes of them, and the script of those that are
armed. Must not know connections: `proxy` has them.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from tests.chaos.faults import ANSWERS, METHODS, WRITES, ArmedFault, arm, take_strike
from tests.chaos.processes import lines
from tests.chaos.processes.http import ProxiedRequest, ProxiedResponse

if TYPE_CHECKING:
    from tests.chaos.processes.proxy import ProxiedExchange

FaultAction = Callable[["ProxiedExchange"], Awaitable[None]]
ProxyFault = tuple[Callable[[ProxiedRequest], bool], FaultAction]
"""Which requests a fault befalls, and what it does to one."""
_ENDLESS = "endless-"
_HASTE_SECONDS = 0.05  # what two clocks and a rounding may differ by


class RequestFault(NamedTuple):
    """A fault as it befalls one request."""

    kind: str
    seconds: float
    do: FaultAction


def is_list(request: ProxiedRequest) -> bool:
    """Return whether a request reads a collection."""
    parts = request.path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    return request.method == "GET" and len(rest) == 1


def is_write(request: ProxiedRequest) -> bool:
    """Return whether a request changes something."""
    return request.method in WRITES


def is_any(request: ProxiedRequest) -> bool:
    """Return whether a request is about objects."""
    return request.path.startswith("/api")


def is_for(kind: str) -> Callable[[ProxiedRequest], bool]:
    """Return whether a fault of both drivers is for a request."""
    methods = METHODS[kind]
    return lambda request: request.method in methods and is_any(request)


# What becomes of one exchange.


async def delay(exchange: ProxiedExchange) -> None:
    """The request is late, and so is its answer."""
    await asyncio.sleep(exchange.seconds / 2)
    if exchange.request.is_watch:
        await exchange.through(partial(lines.late, seconds=exchange.seconds / 2))
        return
    reply = await exchange.forward()
    await asyncio.sleep(exchange.seconds / 2)
    await exchange.pass_on(reply)


async def lost(exchange: ProxiedExchange) -> None:
    """The request never arrives, and its client sees the connection break."""
    exchange.cut()


async def unanswered(exchange: ProxiedExchange) -> None:
    """The request takes effect, and its client sees the connection break."""
    if not exchange.request.is_watch:
        await exchange.forward()
    exchange.cut()


async def late(exchange: ProxiedExchange) -> None:
    """The client sees the connection break. The request arrives when no one waits for it."""
    exchange.cut()
    with exchange.under_way():
        await asyncio.sleep(exchange.seconds)
        await exchange.forward()


async def reset(exchange: ProxiedExchange) -> None:
    """The connection breaks in the middle of the answer."""
    if exchange.request.is_watch:
        await exchange.through(partial(lines.torn, at=exchange.chance.randrange(1, 6)))
    else:
        await exchange.pass_part(await exchange.forward(), exchange.chance.random())


async def garbled(exchange: ProxiedExchange) -> None:
    """The answer is no JSON any longer, although HTTP sees nothing wrong with it."""
    if exchange.request.is_watch:
        await exchange.through(partial(lines.garbled, at=exchange.chance.randrange(1, 6)))
        return
    reply = await exchange.forward()
    at = exchange.chance.randrange(len(reply.body) or 1)
    await exchange.pass_on(reply._replace(body=reply.body[:at] + b"\x00}" + reply.body[at + 3 :]))


async def stall(exchange: ProxiedExchange) -> None:
    """No one answers, and no one hangs up. A watch falls silent after a while."""
    if exchange.request.is_watch:
        await exchange.through(partial(lines.swallowed, after=exchange.chance.randrange(6)))
    else:
        await exchange.silence()


async def drip(exchange: ProxiedExchange) -> None:
    """The answer comes drop by drop."""
    if exchange.request.is_watch:
        await exchange.through(partial(lines.dripped, seconds=exchange.seconds / 4))
    else:
        await exchange.drip(await exchange.forward(), exchange.seconds)


def answer_with(kind: str, *, takes_effect: bool = False) -> FaultAction:
    """Return what answers in the server's place."""

    async def answer(exchange: ProxiedExchange) -> None:
        if takes_effect:
            await exchange.forward()
        code, reason, after = ANSWERS[kind]
        await exchange.refuse(code, reason, retry_after=after)

    return answer


async def expired(exchange: ProxiedExchange) -> None:
    """410, at once or in the middle of a watch."""
    if exchange.request.is_watch and exchange.chance.random() < 0.5:
        await exchange.through(partial(lines.expired, at=exchange.chance.randrange(1, 6)))
    else:
        await exchange.refuse(410, "Expired")


async def pages(exchange: ProxiedExchange) -> None:
    """After each page there is another one. A client that wants a streamed list must take pages."""
    request = exchange.request
    if request.query.get("sendInitialEvents"):
        await exchange.refuse(400, "BadRequest")
        return
    if request.is_watch:
        await exchange.through()
        return
    number = 0
    query = request.query
    if query.get("continue", "").startswith(_ENDLESS):
        number = int(query.pop("continue").removeprefix(_ENDLESS))
        words = "&".join(f"{key}={quote(value, safe='')}" for key, value in query.items())
        request = request._replace(target=f"{request.path}?{words}")
    reply = await exchange.forward(request)
    await exchange.pass_on(_with_metadata(reply, {"continue": f"{_ENDLESS}{number + 1}"}))


async def rollback(exchange: ProxiedExchange) -> None:
    """The revision is one that was long ago."""
    behind = exchange.chance.randrange(1, 200)
    if exchange.request.is_watch:
        at = exchange.chance.randrange(1, 6)
        await exchange.through(partial(lines.rolled_back, at=at, behind=behind))
        return
    reply = await exchange.forward()
    body = json.loads(reply.body)
    told = str((body.get("metadata") or {}).get("resourceVersion", ""))
    if told.isdigit():
        older = str(max(1, int(told) - behind))
        reply = _with_metadata(reply, {"resourceVersion": older})
    await exchange.pass_on(reply)


def _with_metadata(reply: ProxiedResponse, told: Mapping[str, str]) -> ProxiedResponse:
    """Return an answer whose metadata say something else. One that is no object stays."""
    body = json.loads(reply.body)
    if reply.head.status != 200 or "metadata" not in body:
        return reply
    body["metadata"] = {**(body["metadata"] or {}), **told}
    return reply._replace(body=json.dumps(body).encode())


def _answers(*kinds: str) -> Mapping[str, ProxyFault]:
    return {
        kind: (is_for(kind), answer_with(kind, takes_effect=kind.endswith("done")))
        for kind in kinds
    }


FAULTS: Mapping[str, ProxyFault] = {
    "delay": (is_any, delay),
    "lost": (is_for("lost"), lost),
    "unanswered": (is_any, unanswered),
    "late": (is_for("late"), late),
    "reset": (is_any, reset),
    "garbled": (is_any, garbled),
    "stall": (is_any, stall),
    "drip": (is_any, drip),
    **_answers("409"),
    "410": (is_for("410"), expired),
    **_answers("429", "500", "503", "504", "504 done"),
    "pages": (is_list, pages),
    "rollback": (is_list, rollback),
}
"""Each fault: which requests it befalls, and what it does to one."""


@dataclass
class FaultScript:
    """The faults of a run, for all servers that a proxy stands before."""

    chance: random.Random

    def __post_init__(self) -> None:
        """Have nothing armed."""
        self.armed: list[ArmedFault] = []
        self.befallen: Counter[str] = Counter()
        self.healed = asyncio.Event()
        """Set while there are no faults. The one that is silent then hangs up."""
        self.hasty: list[str] = []
        """Requests that came again before the time that they were told."""
        self.under_way = 0
        """Requests that have still to arrive although their clients are gone."""
        self._told: dict[tuple[str, ProxiedRequest], float] = {}

    def begin(self, seed: int) -> None:
        """Begin a new run."""
        self.chance.seed(seed)
        self.healed.clear()

    def arm(self, side: str, numbers: Sequence[int]) -> None:
        """Have a fault wait for its requests, as the machine's step of that name has it."""
        self.armed.append(arm(side, tuple(FAULTS), numbers))

    def fate(self, side: str, request: ProxiedRequest) -> RequestFault | None:
        """Return what befalls a request."""
        self._judge_haste(side, request)
        struck = take_strike(self.armed, side, lambda kind: FAULTS[kind][0](request))
        if struck is None:
            return None
        self.befallen[struck.kind] += 1
        return RequestFault(struck.kind, struck.seconds, FAULTS[struck.kind][1])

    def heal(self) -> None:
        """Have no faults any longer."""
        self.armed.clear()
        self.healed.set()

    def told(self, side: str, request: ProxiedRequest, seconds: int) -> None:
        """Remember when a write may come again."""
        if is_write(request):
            self._told[side, _plain(request)] = time.monotonic() + seconds

    def _judge_haste(self, side: str, request: ProxiedRequest) -> None:
        due = self._told.pop((side, _plain(request)), 0.0)
        early = due - time.monotonic()
        if early > _HASTE_SECONDS:
            self.hasty.append(f"{side} {request.method} {request.path} came {early:.2f} s early")


def _plain(request: ProxiedRequest) -> ProxiedRequest:
    """Return a request without what changes from one try to the next."""
    return request._replace(headers=())
