"""CNI configuration of a tenant, parsed strictly.

Pure. Owns the form of `spec.config` and the checks against the plugin tables. Must not know which
devices and addresses a policy offers.

Hazard: a key must be compared exactly and be written once. Plugins read JSON without regard to case
and take the last of equal keys, so an unchecked value would otherwise take effect.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from syncer.model.rejections import RejectedError, RejectionProblem
from syncer.rules.network.attachments import plugin_tables
from syncer.rules.network.attachments.plugin_tables import MainPlugin, ValueCheck

CONFIG_RULE = "network-config"
TYPE_RULE = "network-type"
MAX_CONFIG_BYTES = 16 * 1024
MAX_PLUGINS = 4
DEFAULT_CNI_VERSION = "1.0.0"
_MAX_SHOWN_CHARACTERS = 40
_LIST_KEYS: Mapping[str, ValueCheck] = {
    "cniVersion": plugin_tables.is_one_of(*plugin_tables.CNI_VERSIONS),
    "disableCheck": plugin_tables.is_flag,
    "name": plugin_tables.is_text,
    "plugins": lambda value: isinstance(value, list),
}
_HEAD_KEYS: Mapping[str, ValueCheck] = {key: _LIST_KEYS[key] for key in ("cniVersion", "name")}
_INNER = ("capabilities", "ipam")


class CniConfig(NamedTuple):
    """A configuration whose keys and values are all known."""

    version: str
    main: Mapping[str, Any]
    """The plugin that creates the interface, without the keys of the list."""
    chained: Sequence[Mapping[str, Any]]
    disable_check: bool = False

    @property
    def plugin(self) -> MainPlugin:
        """Return the row of the first plugin."""
        return plugin_tables.MAIN_PLUGINS[self.main["type"]]

    @property
    def ipam(self) -> Mapping[str, Any]:
        """Return the IPAM part. Empty: the interface has no address."""
        return self.main.get("ipam") or {}


def refuse(rule: str, path: str, text: str) -> RejectedError:
    """Return the rejection for one field of the configuration."""
    return RejectedError(RejectionProblem(rule, path, text))


def load_json(text: Any, path: str, rule: str, *, limit: int = MAX_CONFIG_BYTES) -> Any:
    """Return the JSON value of a tenant's text. Raises RejectedError, also for a repeated key."""
    if not isinstance(text, str) or not text.strip():
        raise refuse(rule, path, "must not be empty. Write the JSON of the configuration")
    if len(text) > limit:
        raise refuse(rule, path, f"is longer than {limit} characters. Make it shorter")
    try:
        return json.loads(text, object_pairs_hook=_build_map, parse_constant=_refuse_constant)
    except (RecursionError, ValueError) as problem:
        reason = (
            str(problem)[:_MAX_SHOWN_CHARACTERS] if isinstance(problem, _RepeatedKeyError) else ""
        )
        detail = f" ({reason})" if reason else ""
        raise refuse(rule, path, f"is no valid JSON{detail}. Correct it") from None


class _RepeatedKeyError(ValueError):
    """A key occurs twice in one object."""


def _build_map(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _RepeatedKeyError("a key occurs twice")
    return found


def _refuse_constant(text: str) -> Any:
    raise ValueError(text)


def parse_config(text: Any) -> CniConfig:
    """Return the configuration of a NetworkAttachmentDefinition. Raises RejectedError."""
    path = "spec.config"
    found = load_json(text, path, CONFIG_RULE)
    if not isinstance(found, dict):
        raise refuse(CONFIG_RULE, path, "must be a JSON object. Correct it")
    if "plugins" in found:
        problems = list(_find_key_problems(found, _LIST_KEYS, path))
        plugins = found["plugins"]
        path = f"{path}.plugins"
    else:
        head = {key: found[key] for key in found if key in _HEAD_KEYS}
        problems = list(_find_key_problems(head, _HEAD_KEYS, path))
        plugins = [{key: value for key, value in found.items() if key not in _HEAD_KEYS}]
    if problems:
        raise RejectedError(*problems)
    if not 1 <= len(plugins) <= MAX_PLUGINS or not all(isinstance(one, dict) for one in plugins):
        raise refuse(CONFIG_RULE, path, f"must list 1 to {MAX_PLUGINS} plugins. Correct it")
    problems = [
        *_find_main_problems(plugins[0], path),
        *(each for one in plugins[1:] for each in _find_chained_problems(one, path)),
    ]
    if problems:
        raise RejectedError(*problems)
    return CniConfig(
        version=found.get("cniVersion", DEFAULT_CNI_VERSION),
        main=plugins[0],
        chained=plugins[1:],
        disable_check=found.get("disableCheck", False),
    )


def _find_main_problems(plugin: Mapping[str, Any], path: str) -> Iterator[RejectionProblem]:
    row = plugin_tables.MAIN_PLUGINS.get(str(plugin.get("type")))
    if row is None:
        yield _build_type_problem(f"{path}.type", plugin_tables.MAIN_PLUGINS)
        return
    checks = {"type": plugin_tables.is_text, row.device_key: plugin_tables.is_text, **row.keys}
    if row.vlan_key:
        checks[row.vlan_key] = plugin_tables.is_number
    rest = {key: value for key, value in plugin.items() if key not in _INNER}
    yield from _find_key_problems(rest, checks, path)
    if row.device_key not in plugin:
        text = f"must name the device of the nodes. Add {row.device_key}"
        yield RejectionProblem(CONFIG_RULE, f"{path}.{row.device_key}", text)
    capabilities = plugin.get("capabilities", {})
    yield from _find_part_problems(capabilities, plugin_tables.CAPABILITIES, f"{path}.capabilities")
    ipam = plugin.get("ipam", {})
    if ipam == {}:
        return  # an interface without an address
    kind = str(ipam.get("type")) if isinstance(ipam, dict) else ""
    keys = plugin_tables.IPAM_PLUGINS.get(kind)
    if keys is None:
        yield _build_type_problem(f"{path}.ipam.type", plugin_tables.IPAM_PLUGINS)
        return
    yield from _find_part_problems(ipam, {"type": plugin_tables.is_text, **keys}, f"{path}.ipam")


def _find_chained_problems(plugin: Mapping[str, Any], path: str) -> Iterator[RejectionProblem]:
    keys = plugin_tables.CHAINED_PLUGINS.get(str(plugin.get("type")))
    if keys is None:
        yield _build_type_problem(f"{path}.type", plugin_tables.CHAINED_PLUGINS)
        return
    yield from _find_key_problems(plugin, {"type": plugin_tables.is_text, **keys}, path)


def _find_part_problems(
    part: Any, checks: Mapping[str, ValueCheck], path: str
) -> Iterator[RejectionProblem]:
    if isinstance(part, dict):
        yield from _find_key_problems(part, checks, path)
    else:
        yield RejectionProblem(CONFIG_RULE, path, "must be an object. Correct it")


def _find_key_problems(
    part: Mapping[str, Any], checks: Mapping[str, ValueCheck], path: str
) -> Iterator[RejectionProblem]:
    for key in sorted(part):
        where = f"{path}.{key[:_MAX_SHOWN_CHARACTERS]}"
        if key not in checks:
            text = f"is not offered. Remove it. Offered keys are {', '.join(sorted(checks))}"
            yield RejectionProblem(CONFIG_RULE, where, text)
        elif not checks[key](part[key]):
            yield RejectionProblem(CONFIG_RULE, where, "has a value that is not offered. Change it")


def _build_type_problem(path: str, offered: Mapping[str, Any]) -> RejectionProblem:
    text = f"names a plugin that is not offered. Use one of {', '.join(sorted(offered))}"
    return RejectionProblem(TYPE_RULE, path, text)
