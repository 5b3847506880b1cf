"""How a stream ends: a table of what each side had said before, and what then happened. Pure.

Must not know sockets. Hazard: a break is not always a loss. A server whose caller has closed, and
which then finds bytes that nobody reads any more, resets its connection; the same reset in the
middle of a stream has cut off what somebody was waiting for.
"""

from collections.abc import Mapping
from enum import Enum, StrEnum

CLOSING_SECONDS = 10.0
"""For a break to be the answer to a caller's close: a kubelet on the same node gives it at once, on
a busy one seconds later. Nobody known closes a connection by halves and waits for more."""


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
    LEAVING = "the connection of the caller has just broken, before the kubelet has ended"
    SAYING = "the kubelet has ended, its last bytes are on their way to the caller"
    SAID = "the kubelet has ended and the caller has been sent all of it"


class Event(Enum):
    """What may happen to a stream but an orderly end of either side."""

    KUBELET_BROKE = "the connection to the kubelet broke"
    CALLER_BROKE = "the connection of the caller broke"
    CALLER_LEFT = "no end of the kubelet's came soon after that, or nobody reads a log any more"
    WENT_IDLE = "nothing has moved for too long"
    GREW_OLD = "it is older than any stream may be"
    WAS_CUT = "the agent ends, or a permit does"


PARTING_SECONDS = 0.25
"""For the end of a command to follow a caller that broke off: an API server closes as soon as its
user has heard the exit code, which the kubelet sends right before the end."""

_BEFORE_THE_KUBELET_ENDS = {
    Event.KUBELET_BROKE: End.KUBELET_LOST,
    Event.CALLER_BROKE: None,
    Event.CALLER_LEFT: End.CALLER_GONE,
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
    Stage.LEAVING: {**_BEFORE_THE_KUBELET_ENDS, Event.KUBELET_BROKE: End.CALLER_GONE},
    # Everything has been taken from the kubelet: without it the stream goes on to its last byte.
    Stage.SAYING: {
        **_BEFORE_THE_KUBELET_ENDS,
        Event.KUBELET_BROKE: None,
        Event.CALLER_BROKE: End.CALLER_GONE,
    },
    # What the caller has been sent it may not have read, and a socket that is closed under somebody
    # who still sends, be it a ping, takes that away: only the caller ends this in order.
    Stage.SAID: {**dict.fromkeys(Event, End.COMPLETE), Event.KUBELET_BROKE: None},
}


def end_of(stage: Stage, event: Event) -> End | None:
    """Return how a stream ends by this, None when it goes on."""
    return _ENDS[stage][event]
