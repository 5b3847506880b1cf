"""Update of a live object by a PUT of the whole object.

Pure. Owns the comparison, leaf by leaf of the kind's own verdict table, and the metadata of the
PUT.

Hazard: a leaf that is in the table and was added in the super cluster is drift. A leaf that is not
in the table belongs to the super cluster, so comparing whole bodies would fight over its defaults.
"""

from collections.abc import Mapping
from typing import Any

from kubeio import Object
from syncer.model import object_meta
from syncer.model.field_rules import DropField, FieldRule, ListOfObjects, ObjectFields

FieldRules = Mapping[str, FieldRule]


def build_replacement(
    live: Mapping[str, Any], twin: Object, *, table: FieldRules, field: str = ""
) -> Object | None:
    """Return the object for the PUT, or None if the live object is as it should be.

    `field` names the field that the table describes. If it is empty, the table describes the object
    itself.
    """
    changes = object_meta.build_metadata_patch(twin["kind"], live["metadata"], twin["metadata"])
    there, wanted = (live.get(field), twin.get(field)) if field else (live, twin)
    if not changes and _select_fields(there or {}, table) == _select_fields(wanted or {}, table):
        return None
    return {**twin, "metadata": build_metadata(live["metadata"], twin["metadata"], changes)}


def build_metadata(
    there: Mapping[str, Any],
    wanted: Mapping[str, Any],
    changes: Mapping[str, Mapping[str, str | None]],
) -> Object:
    """Return the metadata of a replacement.

    Keys of other owners stay. The version and the UID ensure that the PUT replaces only the object
    that was compared.
    """
    put: Object = {
        "name": wanted["name"],
        "namespace": wanted["namespace"],
        "uid": there["uid"],
        "resourceVersion": there["resourceVersion"],
        **{key: there[key] for key in ("ownerReferences", "finalizers") if key in there},
    }
    for field in ("labels", "annotations"):
        kept = {**(there.get(field) or {}), **wanted[field], **changes.get(field, {})}
        put[field] = {key: value for key, value in kept.items() if value is not None}
    return put


def _select_fields(value: Any, table: FieldRules) -> Any:
    """Return the fields of a value that the table names, without empty lists and absent values.

    An empty object is kept, because a selector `{}` selects everything.
    """
    if not isinstance(value, dict):
        return value
    found = {
        name: _select_leaf(value[name], verdict)
        for name, verdict in table.items()
        if name in value and not isinstance(verdict, DropField)
    }
    return {name: inner for name, inner in found.items() if inner is not None and inner != []}


def _select_leaf(value: Any, rule: FieldRule) -> Any:
    match rule:
        case ObjectFields():
            return _select_fields(value, rule.fields)
        case ListOfObjects() if isinstance(value, list):
            return [_select_fields(item, rule.fields) for item in value]
    return value
