"""Environment and downward API of a super pod: the tenant's services, names and labels.

Pure. Owns the place of service variables in a container. Owns the rewriting of field references, so
that a pod reads the tenant's values. Must not know DNS.

Hazard: every container must have a source of KUBERNETES_*. Otherwise the super kubelet sets these
variables to the super cluster's API.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from syncer.model import object_meta
from tenancy import names, wellknown
from tenancy.policies import BASELINE_POLICY, MetadataSpec

_RECORDED_FIELDS = {"metadata.namespace": wellknown.NAMESPACE, "metadata.uid": wellknown.UID}

LABELS_FILE_ANNOTATION = f"mirror.{wellknown.DOMAIN}/labels"
"""Annotation with the tenant pod's labels, in the format of a kubelet's downward API file."""
ANNOTATIONS_FILE_ANNOTATION = f"mirror.{wellknown.DOMAIN}/annotations"
"""Annotation with the tenant pod's annotations, in the format of a kubelet's downward API file."""


def build_environment(
    container: Mapping[str, Any], *, account: str, mirrors: "FieldRefRewriter"
) -> list[dict[str, Any]]:
    """Return a container's `env`: the tenant's variables, rewritten."""
    return [_rewrite_variable(each, account, mirrors) for each in container.get("env") or ()]


def build_sources(container: Mapping[str, Any], *, links: bool) -> list[dict[str, Any]]:
    """Return a container's `envFrom`: the service variables, then the tenant's own sources.

    A later source overrides an earlier one, and `env` overrides all sources. The first source
    therefore has the precedence that a kubelet gives to service variables, also at a later start of
    the container. References in `env` and commands resolve to it
    (`makeEnvironmentVariables` in pkg/kubelet/kubelet_pods.go).
    """
    name = names.SERVICE_VARIABLES if links else names.API_VARIABLES
    return [{"configMapRef": {"name": name}}, *(container.get("envFrom") or ())]


def has_service_links(spec: Mapping[str, Any]) -> bool:
    """Return whether a pod gets the variables of the Services of its namespace."""
    return spec.get("enableServiceLinks") is not False


def _rewrite_variable(
    variable: dict[str, Any], account: str, mirrors: "FieldRefRewriter"
) -> dict[str, Any]:
    value_from = variable.get("valueFrom") or {}
    field = (value_from.get("fieldRef") or {}).get("fieldPath")
    if field is None:
        return variable
    if field == "spec.serviceAccountName":
        return {"name": variable["name"], "value": account}
    return {
        **variable,
        "valueFrom": {"fieldRef": mirrors.rewrite_field_ref(value_from["fieldRef"])},
    }


def rewrite_downward_items(
    items: Sequence[dict[str, Any]], mirrors: "FieldRefRewriter"
) -> list[dict[str, Any]]:
    """Return the items of a downward API volume, rewritten."""
    return [
        {**item, "fieldRef": mirrors.rewrite_field_ref(item["fieldRef"])}
        if item.get("fieldRef")
        else item
        for item in items
    ]


class FieldRefRewriter:
    """Rewriter of one pod's field references. It collects the annotations that they need."""

    def __init__(
        self, metadata: Mapping[str, Any], passing: MetadataSpec = BASELINE_POLICY.metadata
    ) -> None:
        """Create the rewriter. `passing` decides which keys the super pod has itself."""
        self._passing = passing
        self._labels = metadata.get("labels") or {}
        self._annotations = metadata.get("annotations") or {}
        self.needed_annotations: dict[str, str] = {}
        self.referenced_annotations: set[str] = set()
        """Keys of synced annotations that the pod reads."""

    def rewrite_field_ref(self, ref: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reference that reads the tenant's value in the super pod."""
        path = str(ref.get("fieldPath", ""))
        return {**ref, "fieldPath": self._rewrite_path(path)}

    def _rewrite_path(self, path: str) -> str:
        if path in _RECORDED_FIELDS:
            return _build_annotation_path(_RECORDED_FIELDS[path])
        if path == "metadata.labels":
            return self._mirror_whole_map(LABELS_FILE_ANNOTATION, self._labels)
        if path == "metadata.annotations":
            return self._mirror_whole_map(ANNOTATIONS_FILE_ANNOTATION, self._annotations)
        if path.startswith("metadata.labels["):
            return self._mirror_single_key(path, "labels", self._labels, _parse_key(path))
        if path.startswith("metadata.annotations["):
            return self._mirror_single_key(path, "annotations", self._annotations, _parse_key(path))
        return path

    def _mirror_whole_map(self, key: str, values: Mapping[str, str]) -> str:
        if key not in self.needed_annotations:  # a pod may request a long text thousands of times
            self.needed_annotations[key] = format_downward_file(values)
        return _build_annotation_path(key)

    def _mirror_single_key(self, path: str, field: str, values: Mapping[str, str], key: str) -> str:
        passes = (
            object_meta.is_label_synced(key, self._passing)
            if field == "labels"
            else object_meta.is_annotation_synced("Pod", key, self._passing)
        )
        if passes:
            if field == "annotations":
                self.referenced_annotations.add(key)
            return path
        mirror = object_meta.build_mirror_key(field, key)
        self.needed_annotations[mirror] = str(values.get(key, ""))
        return _build_annotation_path(mirror)


def _build_annotation_path(key: str) -> str:
    return f"metadata.annotations['{key}']"


def _parse_key(path: str) -> str:
    return path[path.index("[") + 1 : -1].strip("'\"")


def format_downward_file(values: Mapping[str, str]) -> str:
    """Return a map as the kubelet writes it into a downward API file: `key="value"` lines."""
    return "\n".join(f"{key}={_quote(str(values[key]))}" for key in sorted(values))


def _quote(text: str) -> str:
    """Return a text as Go's %q prints it, for the usual values of labels and annotations."""
    return "".join(['"', *(_escape(character) for character in text), '"'])


_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
