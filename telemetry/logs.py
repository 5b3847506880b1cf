"""Log configuration of the process, for structlog and for libraries that use `logging`.

Owns format and level: JSON lines in a cluster, coloured columns on a terminal. Knows nothing of the
content.

Hazard: secrets must never be passed as a field, because every field is written. The filter catches
only raw bytes and the usual names of secrets.
"""

import json
import logging
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, TextIO

import orjson
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from telemetry.log_queue import QueueingHandler

_SECRET_WORDS = ("token", "password", "authorization", "secret_data", "private_key", "client_key")
_NOISY_LOGGERS = ("asyncio", "aiohttp", "kubernetes", "urllib3")
"""Libraries with INFO lines of no use here."""

LOG_SUBJECT: ContextVar[Callable[[], Mapping[str, str]] | None] = ContextVar(
    "subject", default=None
)
"""Returns the fields of the current reconcile, for every line of a task.

It is called only when a line is written.
"""


def configure_logging(
    level: str = "INFO",
    *,
    console: bool | None = None,
    stream: TextIO | None = None,
    is_queued: bool = False,
) -> None:
    """Set up logging for the whole process.

    `console` None means columns if the stream is a terminal. With `is_queued` a thread writes the
    lines, so that a blocked stream delays no caller. Lines that do not fit into its queue are
    dropped and counted.
    """
    out = stream or sys.stderr
    if console is None:
        console = out.isatty()
    shared: list[Processor] = [
        add_subject,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        redact_secrets,
    ]
    structlog.configure(
        processors=[
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        # Methods for lines below the level do nothing, so such lines cost almost nothing.
        wrapper_class=structlog.make_filtering_bound_logger(level.lower()),
        cache_logger_on_first_use=True,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *_build_renderer(console),
        ],
    )
    handler = QueueingHandler(out) if is_queued else logging.StreamHandler(out)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _NOISY_LOGGERS:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def add_subject(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Add the fields of the current reconcile. Fields of the line itself win."""
    subject = LOG_SUBJECT.get()
    return event if subject is None else {**subject(), **event}


def redact_secrets(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Hide fields with names of secrets, and bytes, which may contain anything."""
    for key, value in event.items():
        if isinstance(value, bytes | bytearray | memoryview):
            event[key] = f"<{len(value)} bytes>"
        elif isinstance(value, str) and any(word in key.lower() for word in _SECRET_WORDS):
            event[key] = "<hidden>"
    return event


def _build_renderer(console: bool) -> list[Processor]:
    if console:
        return [structlog.dev.ConsoleRenderer()]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(_encode_json)]


def _encode_json(event: EventDict, **_: Any) -> str:
    try:
        return orjson.dumps(event, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()
    except orjson.JSONEncodeError:
        # Numbers beyond 64 bits and broken text. A line must never be lost because of its content.
        return json.dumps({str(key): value for key, value in event.items()}, default=repr)
