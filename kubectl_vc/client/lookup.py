"""Lookup of one VirtualCluster by name."""

from kubectl_vc.client.connection import Connection
from kubectl_vc.output.cli_errors import CliProblem, described
from kubeio import Object, errors
from tenancy.resources import VIRTUAL_CLUSTERS


class NoSuchProblem(CliProblem):
    """No VirtualCluster has this name."""


async def fetch(connection: Connection, name: str) -> Object:
    """Return the VirtualCluster with this name. Raises NoSuchProblem."""
    namespace = connection.namespace
    try:
        return await connection.super_client.get(VIRTUAL_CLUSTERS, name, namespace=namespace)
    except errors.NotFound as problem:
        if not problem.details.get("name"):
            raise  # the CustomResourceDefinition is missing
        raise NoSuchProblem(
            f"there is no {described(VIRTUAL_CLUSTERS, name, namespace)}; see which there are with"
            " `kubectl vc list -A`"
        ) from problem
