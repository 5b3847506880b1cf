"""State table of stream ends: stage of both sides and event give the end. Pure.

The module must not know sockets. Hazard: a break must not always count as a loss, nor as a normal
end. Otherwise complete streams are reported as lost, or lost data as complete. A server whose
caller has closed, and which still has unread bytes, resets its connection. The same reset in the
middle of a stream has cut off data that the caller was waiting for.
"""

from collections.abc import Mapping
from enum import Enum, StrEnum

CLOSING_SECONDS = 10.0
"""Time in seconds for which a break counts as the answer to a caller's close. A kubelet on the same
node answers at once, on a busy node seconds later. No known caller closes one direction and waits
for more.
"""


class End(StrEnum):
    """End of a stream. The set is closed, so it is safe as a metric label."""

    COMPLETE = "complete"
    CALLER_GONE = "caller_gone"
    KUBELET_LOST = "kubelet_lost"
    IDLE = "idle"
    TOO_LONG = "too_long"
    DRAINED = "drained"
    """The agent's own end has cut the stream off."""


class Stage(Enum):
    """Stage of a stream at an event."""

    OPEN = "neither side has ended"
    CLOSING = "the caller has just ended"
    HALF_OPEN = "the caller has ended some time ago, so it waits for more"
    LEAVING = "the connection of the caller has just broken, before the kubelet has ended"
    SAYING = "the kubelet has ended, its last bytes are on their way to the caller"
    SAID = "the kubelet has ended and the caller has been sent all of it"


class Event(Enum):
    """Event of a stream other than an orderly end of either side."""

    KUBELET_BROKE = "the connection to the kubelet broke"
    CALLER_BROKE = "the connection of the caller broke"
    CALLER_LEFT = "no end of the kubelet's came soon after that, or nobody reads a log any more"
    WENT_IDLE = "nothing has moved for too long"
    GREW_OLD = "it is older than any stream may be"
    WAS_CUT = "the agent ends, or a permit does"


PARTING_SECONDS = 0.25
"""Time in seconds for the end of a command to follow a caller that broke off. An API server closes
as soon as its user has received the exit code, which the kubelet sends right before the end.
"""

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
    # The order in which the two connections learn of a close is chance.
    Stage.CLOSING: {
        **_BEFORE_THE_KUBELET_ENDS,
        Event.KUBELET_BROKE: End.COMPLETE,
        Event.CALLER_BROKE: End.COMPLETE,
    },
    Stage.HALF_OPEN: _BEFORE_THE_KUBELET_ENDS,
    Stage.LEAVING: {**_BEFORE_THE_KUBELET_ENDS, Event.KUBELET_BROKE: End.CALLER_GONE},
    # All data of the kubelet has been read, so the stream goes on to its last byte without it.
    Stage.SAYING: {
        **_BEFORE_THE_KUBELET_ENDS,
        Event.KUBELET_BROKE: None,
        Event.CALLER_BROKE: End.CALLER_GONE,
    },
    # The caller may not have read all data. A socket that is closed while the peer sends, even a
    # ping, loses that data. So only the caller ends this stage in order.
    Stage.SAID: {**dict.fromkeys(Event, End.COMPLETE), Event.KUBELET_BROKE: None},
}


def end_of(stage: Stage, event: Event) -> End | None:
    """Return the end of a stream after an event, None if it goes on."""
    return _ENDS[stage][event]
