"""Ownership labels and content digests of the objects of a control plane.

Owns labels, the digest of an object and the digest of what a pod mounts. Pure. Hazard: the digest
of the mounted files in the pod template turns a change of them into a rollout. It must have every
file that its program reads only once. Pods keep old files if their volume kind is missing here.
"""

import copy
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tenancy import ownership, wellknown
from tenancy.ownership import Tenant
from vcmanager.pki import reloaded_files

Manifest = dict[str, Any]
DigestSource = tuple[str, str]
"""Kind and name of an object that a pod mounts, or whose change recreates the pod."""

STORE_SOURCE: DigestSource = ("Store", "etcd")
"""Stands for the identity of etcd, in addition to the mounts of a pod."""

_WORKLOAD_KINDS = frozenset({"StatefulSet", "Deployment"})


def add_metadata(
    manifest: Manifest,
    tenant: Tenant,
    contents: Mapping[DigestSource, str],
    also: frozenset[DigestSource] = frozenset(),
    *,
    mounted: str | None = None,
) -> Manifest:
    """Return a manifest with labels, and for workloads the digest of what their pods mount.

    Files that the program reads again are not part of it. `contents` has the digest of each Secret
    and ConfigMap of the root namespace. `also` names further sources whose change recreates the
    pods, although the pods do not mount them. `mounted` is the digest itself, if it is known.
    """
    made = copy.deepcopy(manifest)
    labels = ownership.build_owner_labels(tenant, "")
    metadata = made["metadata"]
    metadata["namespace"] = tenant.root
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    if made["kind"] in _WORKLOAD_KINDS:
        template = made["spec"]["template"]
        inner = template.setdefault("metadata", {})
        inner["labels"] = {**(inner.get("labels") or {}), **labels}
        if mounted is None:
            mounted = digest_mounted(metadata["name"], template["spec"], contents, also)
        inner["annotations"] = {
            **(inner.get("annotations") or {}),
            wellknown.SECRETS_DIGEST: mounted,
        }
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        wellknown.LAST_WRITTEN_DIGEST: compute_digest(made),
    }
    return made


def digest_mounted(
    component: str,
    pod_spec: Mapping[str, Any],
    contents: Mapping[DigestSource, str],
    also: frozenset[DigestSource] = frozenset(),
) -> str:
    """Return the digest of the files that a program reads once, and of the sources in `also`."""
    sources = sorted(list_read_once_sources(component, pod_spec, contents) | also)
    return compute_digest(
        [f"{kind}/{name}={contents.get((kind, name), '')}" for kind, name in sources]
    )


def list_mounted_sources(pod_spec: Mapping[str, Any]) -> set[DigestSource]:
    """Return the Secrets and ConfigMaps that a pod mounts."""
    found: set[DigestSource] = set()
    for volume in pod_spec.get("volumes") or ():
        projected = (volume.get("projected") or {}).get("sources") or ()
        for source in (volume, *projected):
            found |= _list_volume_sources(source)
    return found


def list_read_once_sources(
    component: str, pod_spec: Mapping[str, Any], contents: Mapping[DigestSource, str]
) -> set[DigestSource]:
    """Return the mounted files that the program reads only once.

    A volume of which all files are read once counts as a whole. Otherwise the name of a source is
    `NAME/KEY`.
    """
    found: set[DigestSource] = set()
    for volume in pod_spec.get("volumes") or ():
        projected = (volume.get("projected") or {}).get("sources") or ()
        for source in (volume, *projected):
            for kind, name in _list_volume_sources(source):
                files = dict(_iterate_files(source, kind, name, contents))
                once = {
                    key
                    for key, path in files.items()
                    if not reloaded_files.is_reloaded(component, pod_spec, volume["name"], path)
                }
                if once == files.keys() and not _list_items(source, kind):
                    found.add((kind, name))
                else:
                    found |= {(kind, f"{name}/{key}") for key in once}
    return found


def digest_contents(objects: Iterable[Mapping[str, Any]], kind: str) -> dict[DigestSource, str]:
    """Return the digest of the data of each Secret or ConfigMap, and of each of its keys.

    Lines that a program reads again are left out (`reloaded_files.get_read_once_data`).
    """
    found: dict[DigestSource, str] = {}
    for each in objects:
        name, data = each["metadata"]["name"], reloaded_files.get_read_once_data(kind, each)
        found[kind, name] = compute_digest([data, each.get("binaryData")])
        values = {**(data or {}), **(each.get("binaryData") or {})}
        found |= {(kind, f"{name}/{key}"): compute_digest(value) for key, value in values.items()}
    return found


def is_up_to_date(desired: Mapping[str, Any], live: Mapping[str, Any] | None) -> bool:
    """Return whether writing `desired` would change nothing.

    The digest detects fields that are no longer sent. The comparison detects changes by other
    writers.
    """
    if live is None or "deletionTimestamp" in live["metadata"]:
        return False
    annotations = live["metadata"].get("annotations") or {}
    if (
        annotations.get(wellknown.LAST_WRITTEN_DIGEST)
        != desired["metadata"]["annotations"][wellknown.LAST_WRITTEN_DIGEST]
    ):
        return False
    return is_subset(desired, live)


def is_subset(wanted: Any, found: Any) -> bool:
    """Return whether everything in `wanted` is in `found`, which may have more."""
    if isinstance(wanted, Mapping):
        if not isinstance(found, Mapping):
            return not wanted and found is None
        return all(is_subset(value, found.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list):
        if not isinstance(found, list):
            return not wanted and found is None
        return len(wanted) == len(found) and all(map(is_subset, wanted, found))
    return bool(wanted == found)


def compute_digest(value: Any) -> str:
    """Return the digest of a JSON value, as 32 hexadecimal digits."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _list_volume_sources(volume: Mapping[str, Any]) -> set[DigestSource]:
    found: set[DigestSource] = set()
    secret = volume.get("secret") or {}
    name = secret.get("secretName") or secret.get("name")
    if name:
        found.add(("Secret", name))
    config_map = volume.get("configMap") or {}
    if config_map.get("name"):
        found.add(("ConfigMap", config_map["name"]))
    return found


def _iterate_files(
    volume: Mapping[str, Any], kind: str, name: str, contents: Mapping[DigestSource, str]
) -> Iterator[tuple[str, str]]:
    """Yield key and relative path of each file of a source."""
    items = _list_items(volume, kind)
    if items:
        yield from ((item["key"], item["path"]) for item in items)
        return
    prefix = f"{name}/"
    for known, path in contents:
        if known == kind and path.startswith(prefix):
            key = path.removeprefix(prefix)
            yield key, key


def _list_items(volume: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    source = volume.get("secret" if kind == "Secret" else "configMap") or {}
    return list(source.get("items") or ())
