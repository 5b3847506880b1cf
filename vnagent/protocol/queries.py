"""Query options of each route: known keys, types and ranges, rewritten in canonical form. Pure.

The module must not know paths or pods. Hazard: the kubelet reads the query that this module writes,
so each value must be checked here. Otherwise a tenant could pass an unchecked option to the
kubelet. Unknown keys are dropped. A known key that is repeated or out of range refuses the request.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from urllib.parse import quote_plus, unquote_to_bytes

from vnagent.protocol.errors import RefusalReason, RequestRefusedError

MAX_QUERY_BYTES = 64 * 1024
MAX_COMMAND_WORDS = 4096
MAX_QUERY_PARTS = MAX_COMMAND_WORDS + 64
"""Limit of the parts of a query, known or not. Each part costs 1 µs, for which all other requests
wait.
"""
MAX_PORTS = 256

QueryPairs = tuple[tuple[str, str], ...]
"""Keys and decoded values in the order in which they are written."""

QueryParser = Callable[[str, str], str | None]
"""Function from key and value to the canonical value, None when the option is off."""

_INT64_MAX = 2**63 - 1
# The pattern allows the output of Go's url.Values and the further characters of RFC 3986. It allows
# no semicolon, because proxies and servers disagree on whether it separates pairs.
_RAW_QUERY = re.compile(rb"(?:[A-Za-z0-9._~!$'()*,:@/?+=&-]|%[0-9A-Fa-f]{2})*")
_DIGITS = re.compile(r"0|[1-9][0-9]{0,18}")
_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?"
    r"(?:Z|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)
_SWITCH_VALUES = {"1": True, "true": True, "0": False, "false": False}
_STREAM_NAMES = frozenset({"All", "Stdout", "Stderr"})


def _build_bad_query(key: str, wanted: str) -> RequestRefusedError:
    return RequestRefusedError(
        400, RefusalReason.BAD_QUERY, f"the query parameter {key} must be {wanted}"
    )


def _parse_switch(written: str) -> QueryParser:
    def parse(key: str, value: str) -> str | None:
        if value not in _SWITCH_VALUES:
            raise _build_bad_query(key, "true or false")
        return written if _SWITCH_VALUES[value] else None

    return parse


def _parse_integer(least: int) -> QueryParser:
    def parse(key: str, value: str) -> str | None:
        if _DIGITS.fullmatch(value) is None or not least <= int(value) <= _INT64_MAX:
            raise _build_bad_query(key, f"a whole number from {least} to {_INT64_MAX}")
        return value

    return parse


def _parse_time(key: str, value: str) -> str | None:
    wanted = "a time in RFC 3339 format, such as 2026-01-02T15:04:05Z"
    if _RFC3339.fullmatch(value) is None:
        raise _build_bad_query(key, wanted)
    try:
        datetime.fromisoformat(value)
    except ValueError as error:
        raise _build_bad_query(key, wanted) from error
    return value


def _parse_stream(key: str, value: str) -> str | None:
    if value not in _STREAM_NAMES:
        raise _build_bad_query(key, "All, Stdout or Stderr")
    return value


_LOG_OPTIONS: Mapping[str, QueryParser] = {
    "follow": _parse_switch("true"),
    "previous": _parse_switch("true"),
    "timestamps": _parse_switch("true"),
    "sinceSeconds": _parse_integer(1),
    "sinceTime": _parse_time,
    "tailLines": _parse_integer(0),
    "limitBytes": _parse_integer(1),
    "stream": _parse_stream,
}
# The kubelet accepts only "1" as true.
_STREAM_OPTIONS: Mapping[str, QueryParser] = {
    "input": _parse_switch("1"),
    "output": _parse_switch("1"),
    "error": _parse_switch("1"),
    "tty": _parse_switch("1"),
}

_SUMMARY_OPTIONS: Mapping[str, QueryParser] = {"only_cpu_and_memory": _parse_switch("true")}


def parse_log_options(raw: bytes) -> QueryPairs:
    """Parse the options of a request for logs."""
    found = _apply_parsers(_decode_pairs(raw), _LOG_OPTIONS)
    if {"sinceSeconds", "sinceTime"} <= {key for key, _ in found}:
        raise RequestRefusedError(
            400,
            RefusalReason.BAD_QUERY,
            "the query has sinceSeconds and sinceTime. Use one of them",
        )
    return found


def parse_attach_options(raw: bytes) -> QueryPairs:
    """Parse which streams to attach to."""
    return _apply_parsers(_decode_pairs(raw), _STREAM_OPTIONS)


def parse_exec_options(raw: bytes) -> QueryPairs:
    """Parse the streams and the command of an exec."""
    pairs = _decode_pairs(raw)
    words = [value for key, value in pairs if key == "command"]
    if not words:
        raise RequestRefusedError(400, RefusalReason.BAD_QUERY, "the query has no command to run")
    if len(words) > MAX_COMMAND_WORDS:
        raise _build_bad_query("command", f"given at most {MAX_COMMAND_WORDS} times")
    return (*_apply_parsers(pairs, _STREAM_OPTIONS), *(("command", word) for word in words))


def parse_run_options(raw: bytes) -> QueryPairs:
    """Parse the command of a run, which the kubelet splits at its spaces."""
    commands = [value for key, value in _decode_pairs(raw) if key == "cmd"]
    if len(commands) != 1 or not commands[0]:
        raise _build_bad_query("cmd", "given once: the command to run")
    return (("cmd", commands[0]),)


def parse_summary_options(raw: bytes) -> QueryPairs:
    """Parse which metrics a summary has."""
    return _apply_parsers(_decode_pairs(raw), _SUMMARY_OPTIONS)


def parse_port_forward_options(raw: bytes) -> QueryPairs:
    """Parse the ports, which only the oldest WebSocket protocol puts into the query."""
    ports = [
        port for key, value in _decode_pairs(raw) if key == "port" for port in value.split(",")
    ]
    for port in ports:
        if _DIGITS.fullmatch(port) is None or not 1 <= int(port) <= 65535:
            raise _build_bad_query("port", "a number from 1 to 65535")
    if len(ports) > MAX_PORTS:
        raise _build_bad_query("port", f"given at most {MAX_PORTS} times")
    return (("port", ",".join(ports)),) if ports else ()


def parse_no_options(raw: bytes) -> QueryPairs:
    """Check a query and ignore all its keys."""
    _decode_pairs(raw)
    return ()


def render_query(pairs: QueryPairs) -> str:
    """Return a query in one canonical form, as Go's url.Values writes it."""
    return "&".join(f"{quote_plus(key)}={quote_plus(value)}" for key, value in pairs)


def _decode_pairs(raw: bytes) -> list[tuple[str, str]]:
    """Decode a query once. A query that could be decoded in two ways is refused."""
    if len(raw) > MAX_QUERY_BYTES:
        raise RequestRefusedError(
            414, RefusalReason.BAD_QUERY, f"the query is longer than {MAX_QUERY_BYTES} bytes"
        )
    if _RAW_QUERY.fullmatch(raw) is None:
        raise RequestRefusedError(400, RefusalReason.BAD_QUERY, "the query is not percent-encoded")
    if raw.count(b"&") >= MAX_QUERY_PARTS:
        raise RequestRefusedError(
            400,
            RefusalReason.BAD_QUERY,
            f"the query has more than {MAX_QUERY_PARTS} parts. Use fewer",
        )
    return [_decode_pair(piece) for piece in raw.split(b"&")] if raw else []


def _decode_pair(piece: bytes) -> tuple[str, str]:
    key, separator, value = piece.partition(b"=")
    if not key or not separator:
        raise RequestRefusedError(
            400, RefusalReason.BAD_QUERY, "each part of the query must be key=value"
        )
    try:
        return _decode(key), _decode(value)
    except UnicodeDecodeError as error:
        raise RequestRefusedError(400, RefusalReason.BAD_QUERY, "the query is not UTF-8") from error


def _decode(piece: bytes) -> str:
    if b"%" not in piece and b"+" not in piece:
        return piece.decode("ascii")  # the pattern allows no other character
    text = unquote_to_bytes(piece.replace(b"+", b" ")).decode()
    if "\0" in text:
        raise RequestRefusedError(400, RefusalReason.BAD_QUERY, "the query has a NUL byte")
    return text


def _apply_parsers(pairs: list[tuple[str, str]], options: Mapping[str, QueryParser]) -> QueryPairs:
    given: dict[str, str] = {}
    for key, value in pairs:
        if key not in options:
            continue
        if key in given:
            raise _build_bad_query(key, "given once")
        given[key] = value
    read = ((key, options[key](key, value)) for key, value in given.items())
    return tuple((key, value) for key, value in read if value is not None)
