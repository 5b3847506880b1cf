"""State table of stream ends: stage of both sides and event give the end. Pure.

The module must not know sockets. Hazard: a break must not always count as a loss, nor as a normal
end. Otherwise complete streams are reported as lost, or lost data as complete. A server whose
caller has closed, and which still has unread bytes, resets its connection. The same reset in the
middle of a stream has cut off data that the caller was waiting for.
"""

from collections.abc import Mapping
from enum import Enum, StrEnum

CLOSE_ANSWER_SECONDS = 10.0
"""Time in seconds for which a break counts as the answer to a caller's close. A kubelet on the same
node answers at once, on a busy node seconds later. No known caller closes one direction and waits
for more.
"""


class StreamEnd(StrEnum):
    """End of a stream. The set is closed, so it is safe as a metric label."""

    COMPLETE = "complete"
    CALLER_GONE = "caller_gone"
    KUBELET_LOST = "kubelet_lost"
    IDLE = "idle"
    TOO_LONG = "too_long"
    DRAINED = "drained"
    """The agent's own end has cut the stream off."""


class StreamStage(Enum):
    """Stage of a stream at an event."""

    OPEN = "neither side has ended"
    CLOSING = "the caller has just ended"
    HALF_OPEN = "the caller has ended some time ago, so it waits for more"
    CALLER_BROKEN = "the connection of the caller has just broken, before the kubelet has ended"
    KUBELET_ENDING = "the kubelet has ended, its last bytes are on their way to the caller"
    KUBELET_ENDED = "the kubelet has ended and the caller has been sent all of it"


class StreamEvent(Enum):
    """Event of a stream other than an orderly end of either side."""

    KUBELET_BROKE = "the connection to the kubelet broke"
    CALLER_BROKE = "the connection of the caller broke"
    CALLER_LEFT = "the kubelet did not end soon after that, or a log is no longer read"
    WENT_IDLE = "no data was sent for too long"
    MAX_AGE_REACHED = "it is older than any stream may be"
    WAS_CUT = "the agent stops, or a permission was withdrawn"


EXIT_CODE_SECONDS = 0.25
"""Time in seconds for the end of a command to follow a caller that broke off. An API server closes
as soon as its user has received the exit code, which the kubelet sends right before the end.
"""

_ENDS_BEFORE_KUBELET_END = {
    StreamEvent.KUBELET_BROKE: StreamEnd.KUBELET_LOST,
    StreamEvent.CALLER_BROKE: None,
    StreamEvent.CALLER_LEFT: StreamEnd.CALLER_GONE,
    StreamEvent.WENT_IDLE: StreamEnd.IDLE,
    StreamEvent.MAX_AGE_REACHED: StreamEnd.TOO_LONG,
    StreamEvent.WAS_CUT: StreamEnd.DRAINED,
}

_END_TABLE: Mapping[StreamStage, Mapping[StreamEvent, StreamEnd | None]] = {
    StreamStage.OPEN: _ENDS_BEFORE_KUBELET_END,
    # The order in which the two connections learn of a close is chance.
    StreamStage.CLOSING: {
        **_ENDS_BEFORE_KUBELET_END,
        StreamEvent.KUBELET_BROKE: StreamEnd.COMPLETE,
        StreamEvent.CALLER_BROKE: StreamEnd.COMPLETE,
    },
    StreamStage.HALF_OPEN: _ENDS_BEFORE_KUBELET_END,
    StreamStage.CALLER_BROKEN: {
        **_ENDS_BEFORE_KUBELET_END,
        StreamEvent.KUBELET_BROKE: StreamEnd.CALLER_GONE,
    },
    # All data of the kubelet has been read, so the stream goes on to its last byte without it.
    StreamStage.KUBELET_ENDING: {
        **_ENDS_BEFORE_KUBELET_END,
        StreamEvent.KUBELET_BROKE: None,
        StreamEvent.CALLER_BROKE: StreamEnd.CALLER_GONE,
    },
    # The caller may not have read all data. A socket that is closed while the peer sends, even a
    # ping, loses that data. So only the caller ends this stage in order.
    StreamStage.KUBELET_ENDED: {
        **dict.fromkeys(StreamEvent, StreamEnd.COMPLETE),
        StreamEvent.KUBELET_BROKE: None,
    },
}


def decide_end(stage: StreamStage, event: StreamEvent) -> StreamEnd | None:
    """Return the end of a stream after an event, None if it goes on."""
    return _END_TABLE[stage][event]
