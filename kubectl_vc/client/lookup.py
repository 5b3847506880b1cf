"""Find one VirtualCluster by its name, or say that it is not there."""

from kubectl_vc.client.connection import Connection
from kubectl_vc.output.cli_errors import CliProblem, described
from kubeio import Object, errors
from tenancy.resources import VIRTUAL_CLUSTERS


class NoSuchProblem(CliProblem):
    """There is no VirtualCluster of this name."""


async def fetch(connection: Connection, name: str) -> Object:
    """Return the VirtualCluster of this name. Raises NoSuchProblem."""
    namespace = connection.namespace
    try:
        return await connection.super_client.get(VIRTUAL_CLUSTERS, name, namespace=namespace)
    except errors.NotFound as problem:
        if not problem.details.get("name"):
            raise  # the kind itself is not there
        raise NoSuchProblem(
            f"there is no {described(VIRTUAL_CLUSTERS, name, namespace)}; see which there are with"
            " `kubectl vc list -A`"
        ) from problem
