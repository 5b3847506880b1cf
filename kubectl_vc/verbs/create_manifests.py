"""Manifest of `create -f`: one VirtualCluster, and at most the ClusterVersion that it names.

Owns the sources and the allowed content of a manifest. Must not know the API server. Hazard: every
fault that can be found without the API server must be reported here. A later report would come
after objects were created.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import yaml

from kubectl_vc.output.cli_errors import CliError
from tenancy import deletion, names, wellknown
from tenancy.resources import CLUSTER_VERSIONS, VIRTUAL_CLUSTERS, Resource

MAX_BYTES = 3 * 1024 * 1024
"""Larger than the API server's limit for one request."""
MAX_DEPTH = 100
MAX_VALUES = 100_000
"""Includes the values that aliases stand for. A manifest of all bundles has about 1000."""
_FETCH_SECONDS = 15
_URL_CREDENTIALS = re.compile(r"//[^/?#]*@")
_YAML_VALUE_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors from YAML's own types, for example for a date that does not exist."""


@dataclass(frozen=True, slots=True)
class CreateManifest:
    """The objects that `create` has to create."""

    virtual_cluster: Mapping[str, Any]
    cluster_version: Mapping[str, Any] | None = None


def load_source(source: str) -> bytes:
    """Return the bytes of a file, of standard input (`-`), or of an http or https URL."""
    try:
        if source == "-":
            content = sys.stdin.buffer.read(MAX_BYTES + 1)
        elif source.startswith(("http://", "https://")):
            content = _download(source)
        else:
            with Path(source).open("rb") as stream:
                content = stream.read(MAX_BYTES + 1)
    except ValueError as problem:  # the URL has no usable host
        raise CliError(
            f"{describe_source(source)} is not a usable URL. Correct it, or download the file."
        ) from problem
    except OSError as problem:  # urllib's errors are OSErrors too
        reason = getattr(problem, "reason", None) or problem.strerror or problem
        raise CliError(f"{describe_source(source)} cannot be read: {reason}.") from problem
    if len(content) > MAX_BYTES:
        raise CliError(
            f"{describe_source(source)} is larger than {MAX_BYTES} bytes. Check that it is the"
            " right file."
        )
    return content


def parse_manifest(content: bytes, source: str) -> CreateManifest:
    """Return the objects in YAML or JSON text. Raises CliProblem."""
    where = describe_source(source)
    documents = load_documents(content, where)
    found = [_check_object(each, where) for each in _flatten_lists(documents, where)]
    tenants = [each for each in found if each["kind"] == VIRTUAL_CLUSTERS.kind]
    versions = [each for each in found if each["kind"] == CLUSTER_VERSIONS.kind]
    if len(tenants) != 1:
        number = len(tenants) or "no"
        raise CliError(
            f"{where} has {number} VirtualCluster{'' if len(tenants) == 0 else 's'}. Use one in"
            " each file, alone or with its ClusterVersion."
        )
    if len(versions) > 1:
        raise CliError(
            f"{where} has {len(versions)} ClusterVersions. Keep the one that the VirtualCluster"
            " names, and create the others with kubectl apply -f."
        )
    return _check_manifest(CreateManifest(tenants[0], versions[0] if versions else None), where)


def build_virtual_cluster(name: str, cluster_version: str) -> CreateManifest:
    """Return the manifest of `create NAME --cluster-version V`. Raises CliProblem."""
    if cluster_version:
        _require_name(cluster_version, "--cluster-version")
    body = {
        "apiVersion": VIRTUAL_CLUSTERS.api_version,
        "kind": VIRTUAL_CLUSTERS.kind,
        "metadata": {"name": name},
        "spec": {"clusterVersionName": cluster_version} if cluster_version else {},
    }
    return CreateManifest(body)


def with_namespace(body: Mapping[str, Any], namespace: str, *, is_explicit: bool) -> dict[str, Any]:
    """Return a VirtualCluster with namespace and protection, its name checked by vc-manager's rule.

    `namespace` is the flag's value, or the context's default without the flag. Raises CliProblem.
    """
    metadata = body["metadata"]
    written = metadata.get("namespace")
    if written and is_explicit and written != namespace:
        raise CliError(
            f"metadata.namespace is {written}, but -n is {namespace}. Leave one of the two out."
        )
    chosen = written or namespace
    if not names.is_dns_label(chosen):
        raise CliError(
            f"metadata.namespace: {chosen!r} is not a DNS label. Use {names.describe_label_rule()}."
        )
    try:
        names.build_root_namespace(chosen, metadata["name"], "")
    except names.InvalidNameError as problem:
        raise CliError(f"metadata.name: {problem}") from problem
    labels = metadata.get("labels") or {}
    if isinstance(labels, dict):  # otherwise the API server reports the error
        # `disabled` in the manifest keeps the tenant unprotected.
        labels = {wellknown.DELETION_PROTECTION: deletion.PROTECTION_ENABLED, **labels}
    return {**body, "metadata": {**metadata, "namespace": chosen, "labels": labels}}


def load_documents(content: bytes, where: str) -> list[Any]:
    """Return the YAML or JSON documents of a text, without empty ones. Raises CliError.

    `where` is the name of the text in messages.
    """
    try:
        documents = [
            each for each in yaml.load_all(content, Loader=_ManifestLoader) if each is not None
        ]
        orjson.dumps(documents)
    except _UnsafeYamlError as problem:
        raise CliError(
            f"{where} cannot be read: {_describe_position(problem)}. Write it without aliases or"
            " nesting."
        ) from problem
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        raise CliError(f"{where} is not YAML or JSON: {_describe_position(problem)}.") from problem
    except _YAML_VALUE_ERRORS as problem:
        raise CliError(
            f"{where} has a value that JSON does not have: {problem}. Quote it, or write it in a"
            " simple form."
        ) from problem
    return documents


class _ManifestLoader(yaml.SafeLoader):
    """YAML loader for plain data of the size that its text shows.

    A duplicate key is an error and not a silent loss. An alias may stand for a few lines. It may
    not be inside of the lines that it stands for, and not stand for more than a manifest ever has.
    """

    def __init__(self, stream: bytes) -> None:
        super().__init__(stream)
        self._sizes: dict[yaml.Node, int] = {}
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _UnsafeYamlError(event, f"it is nested deeper than {MAX_DEPTH} levels")
        node = super().compose_node(parent, index)
        self._depth -= 1
        if node is None:
            return None
        if not isinstance(event, yaml.AliasEvent):
            inner = node.value if isinstance(node, yaml.CollectionNode) else ()
            self._sizes[node] = 1 + sum(self._size(each) for each in inner)
        elif node not in self._sizes:
            raise _UnsafeYamlError(event, f"the alias {event.anchor} refers to itself")
        if self._sizes[node] > MAX_VALUES:
            raise _UnsafeYamlError(event, f"with its aliases it has more than {MAX_VALUES} values")
        return node

    def _size(self, each: yaml.Node | tuple[yaml.Node, yaml.Node]) -> int:
        if isinstance(each, tuple):
            return self._sizes[each[0]] + self._sizes[each[1]]
        return self._sizes[each]

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is not None and key != "<<" and key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is duplicated", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


class _UnsafeYamlError(Exception):
    """YAML that has more values than its text shows."""

    def __init__(self, event: yaml.Event, problem: str) -> None:
        super().__init__(problem)
        self.problem, self.problem_mark = problem, event.start_mark


def _download(url: str) -> bytes:
    """Return the content of a URL. Raises ValueError if the URL is not usable, and OSError."""
    import http.client  # noqa: PLC0415 - 30 ms that only a URL needs
    import urllib.request  # noqa: PLC0415

    request = urllib.request.Request(url, headers={"User-Agent": "kubectl-vc"})  # noqa: S310 - http
    try:
        with urllib.request.urlopen(request, timeout=_FETCH_SECONDS) as answer:  # noqa: S310 - or https
            content: bytes = answer.read(MAX_BYTES + 1)
    except http.client.HTTPException as problem:
        raise ValueError(str(problem)) from problem
    return content


def _flatten_lists(documents: Sequence[Any], where: str) -> list[Any]:
    flat: list[Any] = []
    for each in documents:
        is_list = isinstance(each, dict) and each.get("kind") == "List"
        items = each.get("items") or [] if is_list else [each]
        if not isinstance(items, list):
            raise CliError(
                f"{where}: items of the List is not a list. Write each object with a `-`."
            )
        flat += items
    return flat


def _check_object(document: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(document, dict) or not document.get("kind"):
        raise CliError(
            f"{where} is not a Kubernetes object, because it has no kind. Check that it is the"
            " right file."
        )
    kind, version = document["kind"], document.get("apiVersion")
    resource = _RESOURCES_BY_KIND.get(kind) if isinstance(kind, str) else None
    if resource is None:
        raise CliError(
            f"{where} has an object of kind {kind}. Only a VirtualCluster and its ClusterVersion"
            " are allowed. Apply other objects with kubectl apply -f."
        )
    if version != resource.api_version:
        raise CliError(
            f"{where}: apiVersion of the {kind} is {version or 'missing'}. Write"
            f" {resource.api_version}."
        )
    metadata, spec = document.get("metadata"), document.get("spec")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or name is None:
        raise CliError(f"{where}: the {kind} has no metadata.name. Add one.")
    if not isinstance(name, str):
        raise CliError(f"{where}: metadata.name of the {kind} is not a string. Quote it.")
    if not isinstance(metadata.get("namespace", ""), str):
        raise CliError(f"{where}: metadata.namespace of the {kind} is not a string. Quote it.")
    if not isinstance(spec, dict):
        raise CliError(f"{where}: spec of the {kind} {metadata['name']} is missing. Add it.")
    return document


def _check_manifest(manifest: CreateManifest, where: str) -> CreateManifest:
    wanted = manifest.virtual_cluster["spec"].get("clusterVersionName")
    if wanted is None and manifest.cluster_version is None:
        return manifest  # the default ClusterVersion is chosen in the super cluster
    if wanted == "":
        raise CliError(
            f"{where}: spec.clusterVersionName is empty. Add the name of a ClusterVersion (list"
            " them with `kubectl get clusterversions`), or remove the field for the default."
        )
    if wanted is None:
        raise CliError(
            f"{where}: spec.clusterVersionName is missing. Add the name of the ClusterVersion in"
            " the same file."
        )
    if not isinstance(wanted, str):
        raise CliError(f"{where}: spec.clusterVersionName is not a string. Quote it.")
    _require_name(wanted, f"{where}: spec.clusterVersionName")
    given = manifest.cluster_version
    if given is not None and given["metadata"]["name"] != wanted:
        raise CliError(
            f"{where}: spec.clusterVersionName is {wanted}, but the ClusterVersion in the same"
            f" file is {given['metadata']['name']}. Use the same name."
        )
    return manifest


def _require_name(wanted: str, what: str) -> None:
    if not names.is_dns_subdomain(wanted):
        raise CliError(
            f"{what} {wanted!r} is not a valid object name. Use lower-case letters, digits,"
            " hyphens and dots."
        )


def describe_source(source: str) -> str:
    """Return the name of a source in messages, without the password in a URL."""
    if source.startswith(("http://", "https://")):
        return _URL_CREDENTIALS.sub("//", source, count=1)
    return "standard input" if source == "-" else source


def _describe_position(problem: Exception) -> str:
    mark = getattr(problem, "problem_mark", None)
    what = getattr(problem, "problem", None) or getattr(problem, "reason", None) or str(problem)
    return f"line {mark.line + 1}, column {mark.column + 1}: {what}" if mark else str(what)


_RESOURCES_BY_KIND: Mapping[str, Resource] = {
    resource.kind: resource for resource in (VIRTUAL_CLUSTERS, CLUSTER_VERSIONS)
}
