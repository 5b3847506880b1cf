"""Removal of secrets from objects and texts of a debug bundle. Pure.

Hazard: what is left leaves the user's cluster. Therefore values of environment variables and
headers are removed without looking at them, and everything else by key and by form.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

REDACTED = "REDACTED"

_SENSITIVE_WORD = (
    r"(?:pass(?:word|wd|phrase)?|pwd|token|secret|credential|api[-_]?key|access[-_]?key"
    r"|private[-_]?key|client[-_]?key|signing[-_]?key|encryption[-_]?key|auth|authorization"
    r"|bearer|cookie|session[-_]?id|kubeconfig|dockercfg|dockerconfigjson|htpasswd)"
)
_SENSITIVE_KEY = re.compile(_SENSITIVE_WORD, re.IGNORECASE)
_KEY_FILE = re.compile(r"(^|[._-])(key|pem|p12|pfx|jks|keystore)$", re.IGNORECASE)
_HARMLESS_KEYS = frozenset(
    {
        "authority",
        "authorities",
        "automountServiceAccountToken",
        "imagePullSecrets",
        "kubeconfigReaders",
        "secretKeyRef",
        "secretName",
        "secretNamespace",
        "secretRef",
        "serviceAccountToken",
        "topologyKey",
    }
)
"""Keys that contain a sensitive word and only name objects."""
_VALUE_LISTS = frozenset({"env", "httpHeaders"})
"""Lists of name and value. Their values are removed without a look at the name."""
_DROPPED_ANNOTATIONS = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
_DATA_FIELDS = ("data", "stringData", "binaryData")

_TEXT_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
            re.DOTALL,
        ),
        REDACTED,
    ),
    (re.compile(r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"), REDACTED),  # JSON Web Token
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}"), rf"\1 {REDACTED}"),
    (re.compile(r"(?i)([a-z][a-z0-9+.-]*://)[^/\s@:]*:[^/\s@]*@"), rf"\1{REDACTED}@"),
    (re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"), REDACTED),
    (re.compile(r"\bgh[pousr]_\w{20,}"), REDACTED),
    (re.compile(r"(?i)(client-(?:key|certificate)-data\W{1,4})[\w+/=]+"), rf"\1{REDACTED}"),
    (
        re.compile(
            rf"(?i)((?:--)?[\w.-]*{_SENSITIVE_WORD}[\w.-]*[\"']?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&}}]+)"
        ),
        rf"\1{REDACTED}",
    ),
)


def redact_text(text: str) -> str:
    """Return a text without what has the form of a secret."""
    for pattern, replacement in _TEXT_PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def redact_object(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without secrets and without managedFields.

    A Secret keeps only its metadata and the names of its keys.
    """
    found = dict(body)
    is_secret = found.get("kind") == "Secret"
    for field in _DATA_FIELDS:
        values = found.get(field)
        if isinstance(values, Mapping):
            found[field] = {
                key: REDACTED if is_secret or field == "binaryData" else _redact_entry(key, value)
                for key, value in values.items()
            }
    return {key: _redact(key, value) for key, value in found.items()}


def _redact_entry(key: str, value: Any) -> Any:
    if is_sensitive_key(key) or _KEY_FILE.search(key):
        return REDACTED
    return redact_text(value) if isinstance(value, str) else value


def is_sensitive_key(key: str) -> bool:
    """Return whether the value of a key is probably a secret."""
    return key not in _HARMLESS_KEYS and _SENSITIVE_KEY.search(key) is not None


def _redact(key: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            name: _redact(name, inner)
            for name, inner in value.items()
            if name != "managedFields" and name not in _DROPPED_ANNOTATIONS
        }
    if isinstance(value, str):
        return REDACTED if is_sensitive_key(key) and value else redact_text(value)
    if not isinstance(value, Sequence):
        return value
    if key in _VALUE_LISTS:
        return [_redact_value(each) for each in value]
    if key in ("args", "command"):
        return _redact_arguments(value)
    return [_redact(key, each) for each in value]


def _redact_value(item: Any) -> Any:
    """Return an item of a list of names and values without its value."""
    found = _redact("", item)
    if isinstance(found, dict) and "value" in found:
        found["value"] = REDACTED
    return found


def _redact_arguments(arguments: Sequence[Any]) -> list[Any]:
    """Return arguments of a program, also for a flag whose value is the next argument."""
    found: list[Any] = []
    is_value = False
    for each in arguments:
        text = str(each)
        found.append(REDACTED if is_value else redact_text(text))
        is_value = text.startswith("-") and "=" not in text and is_sensitive_key(text)
    return found
