"""How a stream ends: a table of what each side had said before, and what then happened. Pure.

Must not know sockets. Hazard: a break is not always a loss. A server whose caller has closed, and
which then finds bytes that nobody reads any more, resets its connection; the same reset in the
middle of a stream has cut off what somebody was waiting for.
"""

from collections.abc import Mapping
from enum import Enum, StrEnum

CLOSING_SECONDS = 2.0
"""For a break to be the answer to a caller's close: a kubelet on the same node gives it at once."""


class End(StrEnum):
    """How a stream ended; a closed set, safe as a metric label."""

    COMPLETE = "complete"
    CALLER_GONE = "caller_gone"
    KUBELET_LOST = "kubelet_lost"
    IDLE = "idle"
    TOO_LONG = "too_long"
    DRAINED = "drained"
    """The agent's own end has cut it off."""


class Stage(Enum):
    """What has been said when something happens."""

    OPEN = "neither side has ended"
    CLOSING = "the caller has just ended"
    HALF_OPEN = "the caller has ended some time ago, so it waits for more"
    SAYING = "the kubelet has ended, its last bytes are on their way to the caller"
    SAID = "the kubelet has ended and the caller has been sent all of it"


class Event(Enum):
    """What may happen to a stream but an orderly end of either side."""

    KUBELET_BROKE = "the connection to the kubelet broke"
    CALLER_BROKE = "the connection of the caller broke, or that of a log was closed"
    WENT_IDLE = "nothing has moved for too long"
    GREW_OLD = "it is older than any stream may be"
    WAS_CUT = "the agent ends, or a permit does"


_BEFORE_THE_KUBELET_ENDS = {
    Event.KUBELET_BROKE: End.KUBELET_LOST,
    Event.CALLER_BROKE: End.CALLER_GONE,
    Event.WENT_IDLE: End.IDLE,
    Event.GREW_OLD: End.TOO_LONG,
    Event.WAS_CUT: End.DRAINED,
}

_ENDS: Mapping[Stage, Mapping[Event, End | None]] = {
    Stage.OPEN: _BEFORE_THE_KUBELET_ENDS,
    # Which of the two connections is told of a close first, is chance.
    Stage.CLOSING: {
        **_BEFORE_THE_KUBELET_ENDS,
        Event.KUBELET_BROKE: End.COMPLETE,
        Event.CALLER_BROKE: End.COMPLETE,
    },
    Stage.HALF_OPEN: _BEFORE_THE_KUBELET_ENDS,
    # Everything has been taken from the kubelet: without it the stream goes on to its last byte.
    Stage.SAYING: {**_BEFORE_THE_KUBELET_ENDS, Event.KUBELET_BROKE: None},
    Stage.SAID: dict.fromkeys(Event, End.COMPLETE),
}


def end_of(stage: Stage, event: Event) -> End | None:
    """Return how a stream ends by this, None when it goes on."""
    return _ENDS[stage][event]
