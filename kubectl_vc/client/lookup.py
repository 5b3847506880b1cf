"""Lookup of one VirtualCluster by name."""

from kubectl_vc.client.connection import SuperConnection
from kubectl_vc.output.cli_errors import NotFoundError, describe_object
from kubeio import Object, errors
from tenancy.resources import VIRTUAL_CLUSTERS


class VirtualClusterNotFoundError(NotFoundError):
    """No VirtualCluster has this name."""


async def fetch_virtual_cluster(connection: SuperConnection, name: str) -> Object:
    """Return the VirtualCluster with this name. Raises NoSuchProblem."""
    namespace = connection.namespace
    try:
        return await connection.super_client.get(VIRTUAL_CLUSTERS, name, namespace=namespace)
    except errors.NotFound as problem:
        if not problem.details.get("name"):
            raise  # the CustomResourceDefinition is missing
        raise VirtualClusterNotFoundError(
            f"{describe_object(VIRTUAL_CLUSTERS, name, namespace)} was not found. List all with"
            " `kubectl vc list -A`."
        ) from problem
