"""Client certificates of a tenant's users, signed by the tenant's controller manager.

Owns the request, its approval and the kubeconfig with the result. Must not know the super cluster.
Hazard: the private key never leaves this process except into the new kubeconfig.
"""

import asyncio
import base64
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubectl_vc.client.kubeconfig_context import find_current
from kubectl_vc.output.cli_errors import CliError
from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.api.yaml_writer import to_yaml
from tenancy.resources import CERTIFICATE_SIGNING_REQUESTS

MIN_SECONDS = 600
"""Shortest lifetime that the API accepts (`spec.expirationSeconds`)."""
_SIGNER = "kubernetes.io/kube-apiserver-client"
_WAIT_SECONDS = 30.0
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class ClientCredential:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


def read_user(kubeconfig: bytes) -> tuple[str, tuple[str, ...]]:
    """Return name and groups of the user whose certificate a kubeconfig has. Raises CliError."""
    user = find_current(yaml.safe_load(kubeconfig), "user")
    encoded = user.get("client-certificate-data")
    if not encoded:
        raise CliError(
            "the kubeconfig has no client certificate inline (client-certificate-data). Only a"
            " kubeconfig of `kubectl vc` can be renewed."
        )
    try:
        certificate = x509.load_pem_x509_certificate(base64.b64decode(encoded))
    except ValueError as problem:
        raise CliError(
            "the client certificate of the kubeconfig cannot be read. Fetch another kubeconfig."
        ) from problem
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    groups = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return str(names[0].value) if names else "", tuple(str(each.value) for each in groups)


def replace_credential(kubeconfig: bytes, credential: ClientCredential) -> bytes:
    """Return a kubeconfig whose current user has another certificate and key."""
    document = yaml.safe_load(kubeconfig)
    user = find_current(document, "user")
    user["client-certificate-data"] = base64.b64encode(credential.certificate).decode()
    user["client-key-data"] = base64.b64encode(credential.key).decode()
    return to_yaml(document).encode()


async def request_credential(
    tenant_client: Client, user: str, groups: Sequence[str], *, seconds: int | None = None
) -> ClientCredential:
    """Return a new certificate for a user, which the tenant's controller manager signs.

    `seconds` is its lifetime. None means the lifetime that the tenant's signer uses. Raises
    CliError if the tenant does not sign.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = f"kubectl-vc-{secrets.token_hex(5)}"
    made = await tenant_client.create(
        CERTIFICATE_SIGNING_REQUESTS, _build_request(name, key, user, groups, seconds)
    )
    try:
        await tenant_client.replace(
            CERTIFICATE_SIGNING_REQUESTS, _approve(made), name=name, subresource="approval"
        )
        certificate = await _wait_signed(tenant_client, name)
    finally:
        await _delete(tenant_client, name)
    return ClientCredential(
        certificate,
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def _build_request(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    user: str,
    groups: Sequence[str],
    seconds: int | None,
) -> Object:
    subject = x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
            x509.NameAttribute(NameOID.COMMON_NAME, user),
        ]
    )
    request = x509.CertificateSigningRequestBuilder().subject_name(subject)
    encoded = request.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return {
        "apiVersion": CERTIFICATE_SIGNING_REQUESTS.api_version,
        "kind": CERTIFICATE_SIGNING_REQUESTS.kind,
        "metadata": {"name": name},
        "spec": {
            "signerName": _SIGNER,
            "request": base64.b64encode(encoded).decode(),
            "usages": ["digital signature", "client auth"],
            **({} if seconds is None else {"expirationSeconds": seconds}),
        },
    }


def _approve(request: Object) -> Object:
    condition = {
        "type": "Approved",
        "status": "True",
        "reason": "KubectlVc",
        "message": "Requested and approved by one user with kubectl vc.",
    }
    return {**request, "status": {"conditions": [condition]}}


async def _wait_signed(tenant_client: Client, name: str) -> bytes:
    try:
        async with asyncio.timeout(_WAIT_SECONDS):
            while True:
                shown = await tenant_client.get(CERTIFICATE_SIGNING_REQUESTS, name)
                status = shown.get("status") or {}
                if status.get("certificate"):
                    return base64.b64decode(status["certificate"])
                for each in status.get("conditions") or ():
                    if each["type"] in ("Denied", "Failed"):
                        raise CliError(
                            f"the virtual cluster did not sign the certificate:"
                            f" {each.get('message') or each['type']}"
                        )
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError as problem:
        raise CliError(
            f"the virtual cluster has not signed the certificate after {_WAIT_SECONDS:.0f} s."
            " Its controller manager must run with certificatesigningrequest-signing-controller."
        ) from problem


async def _delete(tenant_client: Client, name: str) -> None:
    try:
        await tenant_client.delete(CERTIFICATE_SIGNING_REQUESTS, name)
    except errors.KubeError:
        return  # the tenant's own cleaner deletes it after an hour
