"""Kubernetes' version skew policy for the upgrade of a tenant. Pure."""

from clusterversions import catalog


def find_skew_problem(running: str, wanted: str) -> str | None:
    """Return why a tenant may not change from one version to another, or None if it may.

    The rule is Kubernetes' own (https://kubernetes.io/releases/version-skew-policy/). An API server
    of an older minor cannot read what a newer one has stored. A downgrade therefore loses objects.

    `running` is the version that its API server last reported, such as `v1.36.4`, or empty if it
    never answered. `wanted` is a version or a minor. A version that never became ready is not
    `running`, so it can be taken back.
    """
    before, after = catalog.parse_minor(running), catalog.parse_minor(wanted)
    if before is None or after is None or before[0] != after[0]:
        return None
    steps = after[1] - before[1]
    if steps < 0:
        return (
            f"Kubernetes {wanted} is older than {running}, which runs. A downgrade loses objects."
            f" Use a ClusterVersion of {_format_minor(before)}."
        )
    if steps > 1:
        return (
            f"Kubernetes {wanted} is {steps} minors newer than {running}, which runs. Upgrade one"
            f" minor at a time, first to {_format_minor((before[0], before[1] + 1))}."
        )
    return None


def _format_minor(minor: tuple[int, int]) -> str:
    return f"{minor[0]}.{minor[1]}"
