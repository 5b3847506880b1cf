"""Limits of a TenantPolicy on containers and their images: registries, pull policy, names, probes.

Pure. Owns the parts of a container that no table of verdicts can judge. Ephemeral containers and
volumes of type `image` are judged alike.

Hazard: an image name must be parsed as containerd parses it. Otherwise `ghcr.io.example/x` or an
image without a registry would count as an image of another registry.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from syncer.model import builtin_policy
from syncer.model.rejections import RejectedError, RejectionProblem
from syncer.model.unstructured import as_mapping, as_mappings
from tenancy.policies import ImagesSpec, TenantPolicySpec

CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_GRACE_FIELD = "terminationGracePeriodSeconds"
_DEFAULT_REGISTRY = "docker.io"
_OLD_DEFAULT_REGISTRY = "index.docker.io"
_OFFICIAL_PREFIX = "library/"
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,1023}")
_IMAGE_ID = re.compile(r"(sha[0-9]+:.*)|[0-9a-f]+")
"""An image of the node by its ID or the beginning of its ID. containerd tries this when it has no
image of the name (`LocalResolve` in internal/cri/server/images)."""
_MAX_SHOWN_CHARACTERS = 60


class ImageRepository(NamedTuple):
    """Registry and path of an image, without tag and digest."""

    registry: str
    path: str


def parse_image(image: str) -> ImageRepository | None:
    """Return the repository of an image, as containerd finds it. None if it is no image name.

    The first part is a registry only if it contains a dot, a colon or a capital letter, or is
    `localhost` (`splitDockerDomain` in github.com/distribution/reference).
    """
    if not _IMAGE.fullmatch(image) or _IMAGE_ID.fullmatch(image):
        return None
    first, slash, rest = image.partition("/")
    is_registry = slash and (
        any(mark in first for mark in ".:") or first == "localhost" or first != first.lower()
    )
    registry, path = (first, rest) if is_registry else (_DEFAULT_REGISTRY, image)
    if registry == _OLD_DEFAULT_REGISTRY:
        registry = _DEFAULT_REGISTRY
    path = path.partition("@")[0]
    folder, slash, name = path.rpartition("/")
    path = f"{folder}{slash}{name.partition(':')[0]}"
    if registry == _DEFAULT_REGISTRY and "/" not in path:
        path = f"{_OFFICIAL_PREFIX}{path}"
    return ImageRepository(registry, path) if path else None


def is_image_offered(image: str, images: ImagesSpec) -> bool:
    """Return whether an image is in one of the registries or repositories of the policy."""
    if not images.registries:
        return True
    found = parse_image(image)
    if found is None:
        return False
    name = f"{found.registry}/{found.path}"
    offered = (each.rstrip("/") for each in images.registries)
    return any(name == each or name.startswith(f"{each}/") for each in offered)


def find_problems(spec: Mapping[str, Any], policy: TenantPolicySpec) -> list[RejectionProblem]:
    """Return the problems of the containers and image volumes of a pod spec, or a part of one."""
    return [*_find_name_problems(spec, policy), *_find_image_problems(spec, policy.images)]


def _find_name_problems(
    spec: Mapping[str, Any], policy: TenantPolicySpec
) -> Iterator[RejectionProblem]:
    reserved = policy.pods.reserved_container_names
    for kind in CONTAINER_LISTS:
        for index, container in enumerate(as_mappings(spec.get(kind))):
            if container.get("name") in reserved:
                text = (
                    f"must not be {container['name']}, which is reserved for containers that are"
                    " injected. Choose another name, or ask your platform administrator to change"
                    " spec.pods.reservedContainerNames of the TenantPolicy"
                )
                yield RejectionProblem("reserved-container", f"spec.{kind}[{index}].name", text)


def _find_image_problems(spec: Mapping[str, Any], images: ImagesSpec) -> Iterator[RejectionProblem]:
    if not images.registries:
        return
    for where, image in _iterate_images(spec):
        if not is_image_offered(image, images):
            yield build_image_problem(where, image, images)


def _iterate_images(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for kind in CONTAINER_LISTS:
        for index, container in enumerate(as_mappings(spec.get(kind))):
            yield f"spec.{kind}[{index}].image", str(container.get("image") or "")
    for index, volume in enumerate(as_mappings(spec.get("volumes"))):
        if volume.get("image") is not None:
            reference = as_mapping(volume["image"]).get("reference")
            yield f"spec.volumes[{index}].image.reference", str(reference or "")


def build_image_problem(where: str, image: str, images: ImagesSpec) -> RejectionProblem:
    """Return the problem of an image that is not offered."""
    text = (
        f"must not be {image[:_MAX_SHOWN_CHARACTERS]!r}. Use an image of"
        f" {' or '.join(images.registries)}, or ask your platform administrator to list its"
        " registry in spec.images.registries of the TenantPolicy"
    )
    return RejectionProblem("image-registry", where, text)


def check_changed_image(kind: str, container: Mapping[str, Any], images: ImagesSpec) -> None:
    """Raise RejectedError if a running container must not get its new image."""
    image = str(container.get("image") or "")
    if not is_image_offered(image, images):
        where = f"spec.{kind}[{container.get('name', '')}].image"
        raise RejectedError(build_image_problem(where, image, images))


def write_limits(spec: dict[str, Any], policy: TenantPolicySpec) -> list[RejectionProblem]:
    """Write the pull policy and the longest grace period of probes, in place. Returns notices."""
    notices: list[RejectionProblem] = []
    for kind in CONTAINER_LISTS:
        for index, container in enumerate(spec.get(kind) or ()):
            if policy.images.pull_policy == "Always":
                container["imagePullPolicy"] = "Always"
            notices += _shorten_grace_periods(container, f"spec.{kind}[{index}]")
    for volume in spec.get("volumes") or ():
        if policy.images.pull_policy == "Always" and volume.get("image") is not None:
            volume["image"]["pullPolicy"] = "Always"
    return notices


def _shorten_grace_periods(container: dict[str, Any], path: str) -> Iterator[RejectionProblem]:
    limit = builtin_policy.MAX_GRACE_SECONDS
    for field in _PROBES:
        probe = container.get(field) or {}
        grace = probe.get(_GRACE_FIELD)
        if isinstance(grace, int) and grace > limit:
            probe[_GRACE_FIELD] = limit
            text = f"is shortened to {limit} seconds, the longest that is offered"
            yield RejectionProblem("grace", f"{path}.{field}.{_GRACE_FIELD}", text)
