"""Escapes of control characters in texts that are written to conditions, Events and terminals.

Pure. Hazard: a text from a tenant or from a server must pass here before it reaches a terminal.
Otherwise an escape sequence in an error message could rewrite the screen of an administrator.
"""

import re

_CONTROL_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""C0 without tab and newline, DEL, C1, separators of lines and marks of direction, with which text
can show in another order, and halves of surrogate pairs, which no stream can encode."""


def escape_control_characters(text: str) -> str:
    """Return a text with each control character as `\\u001b`. Tab and newline stay.

    The escapes are those of JSON and YAML, so that a printed document stays the same document.
    """
    return _CONTROL_CHARACTERS.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
