"""Authorities that a kubeconfig trusts for the servers of a virtual cluster.

A rotation of the authority `serving` changes them. The tenant's controller manager publishes them
in each namespace. Hazard: they are read over a connection that the kubeconfig trusts already.
Another connection would let its other end choose who is trusted.
"""

import base64
from datetime import datetime

import yaml
from cryptography import x509

from kubectl_vc.client.kubeconfig_context import find_current
from kubectl_vc.output.cli_errors import CliError
from kubeio.api.client import Client
from kubeio.api.yaml_writer import to_yaml
from tenancy.resources import CONFIG_MAPS

CONFIG_MAP, NAMESPACE = "kube-root-ca.crt", "kube-public"
_KEY = "ca.crt"


async def fetch_authorities(tenant_client: Client) -> bytes:
    """Return the published authorities as PEM. Raises KubeError and CliError."""
    found = await tenant_client.get(CONFIG_MAPS, CONFIG_MAP, namespace=NAMESPACE)
    pem = str((found.get("data") or {}).get(_KEY) or "").encode()
    if not _read_certificates(pem):
        raise CliError(f"the ConfigMap {NAMESPACE}/{CONFIG_MAP} has no certificate under {_KEY}.")
    return pem


def replace_authorities(kubeconfig: bytes, pem: bytes) -> bytes:
    """Return a kubeconfig whose current cluster trusts other authorities.

    It is the same to the byte if it trusts these already. Raises CliError.
    """
    document = yaml.safe_load(kubeconfig)
    cluster = find_current(document, "cluster")
    try:
        known = base64.b64decode(cluster.get("certificate-authority-data") or "")
    except ValueError:
        known = b""
    if _read_certificates(known) == _read_certificates(pem):
        return kubeconfig
    cluster["certificate-authority-data"] = base64.b64encode(pem).decode()
    return to_yaml(document).encode()


def find_end(pem: bytes) -> datetime | None:
    """Return when the last authority of a file ends. None without a readable one."""
    ends = (each.not_valid_after_utc for each in _read_certificates(pem))
    return max(ends, default=None)


def _read_certificates(pem: bytes) -> set[x509.Certificate]:
    """Return the certificates of a file. A file that cannot be read has none."""
    try:
        return set(x509.load_pem_x509_certificates(pem))
    except ValueError:
        return set()
