"""Certificates and keys of a cluster: one authority for the API, one for the front proxy.

Hazard: every certificate must have key identifiers, and every authority a critical key usage.
OpenSSL 3 and Python 3.13 verify chains strictly (RFC 5280) and refuse the rest.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tools.testbed import cache
from tools.testbed.cluster.topology import API_PORT, ClusterNode, Topology

KUBELET_AUTHORITIES = "kubelet-authorities.crt"
"""File of the authorities by which only the API server verifies every kubelet."""
LIFETIME = dt.timedelta(days=365)
CertificateName = str | IPv4Address


@dataclass(frozen=True, slots=True)
class CertificateAndKey:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return private_pem(self.key)


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A key as unencrypted PKCS #8."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def make_authority(name: str) -> CertificateAndKey:
    """Return a self-signed certificate authority that may sign leaves only."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(name, ())
    builder = _builder(subject, key, subject)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(sign_certificates=True), critical=True)
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False
    )
    return CertificateAndKey(builder.sign(key, hashes.SHA256()), key)


def make_leaf(
    authority: CertificateAndKey,
    name: str,
    *,
    groups: Sequence[str] = (),
    names: Sequence[CertificateName] = (),
) -> CertificateAndKey:
    """Return a certificate: for a server with `names`, otherwise for a client, or for both."""
    key = ec.generate_private_key(ec.SECP256R1())
    usages = [ExtendedKeyUsageOID.SERVER_AUTH] if names else [ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = _builder(_subject(name, groups), key, authority.certificate.subject)
    builder = builder.add_extension(
        x509.BasicConstraints(ca=False, path_length=None), critical=True
    )
    builder = builder.add_extension(_usage(sign_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
        critical=False,
    )
    if names:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False
        )
    return CertificateAndKey(builder.sign(authority.key, hashes.SHA256()), key)


def kubeconfig(server: str, authority: bytes, user: CertificateAndKey, cluster: str) -> str:
    """Return a kubeconfig with all data inline, as JSON, which is YAML."""

    def encode(data: bytes) -> str:
        return base64.b64encode(data).decode()

    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": cluster,
                "cluster": {"server": server, "certificate-authority-data": encode(authority)},
            }
        ],
        "users": [
            {
                "name": "admin",
                "user": {
                    "client-certificate-data": encode(user.pem),
                    "client-key-data": encode(user.key_pem),
                },
            }
        ],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": "admin"}}],
        "current-context": cluster,
    }
    return json.dumps(document, indent=1)


def write_cluster(topology: Topology, folder: Path) -> None:
    """Create all certificates, keys and kubeconfigs of a cluster."""
    authority = make_authority(f"{topology.name}-ca")
    front = make_authority(f"{topology.name}-front-proxy-ca")
    _write(folder, "ca", authority)
    _write(folder, "front-proxy-ca", front)
    _write(folder, "front-proxy-client", make_leaf(front, "front-proxy-client"))
    api_names: list[CertificateName] = [
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "localhost",
        IPv4Address("127.0.0.1"),
        topology.hub_ip,
        topology.services[1],
    ]
    _write(folder, "apiserver", make_leaf(authority, "kube-apiserver", names=api_names))
    client = make_leaf(authority, "kube-apiserver-kubelet-client", groups=["system:masters"])
    _write(folder, "apiserver-kubelet-client", client)
    account_key = ec.generate_private_key(ec.SECP256R1())
    cache.write_atomic(folder / "service-accounts.key", private_pem(account_key), 0o600)
    public = account_key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    cache.write_atomic(folder / "service-accounts.pub", public)

    def write_kubeconfig(file: str, user: CertificateAndKey, server: str) -> None:
        _write_kubeconfig(folder, file, kubeconfig(server, authority.pem, user, topology.name))

    local = f"https://127.0.0.1:{API_PORT}"
    admin = make_leaf(authority, "kubernetes-admin", groups=["system:masters"])
    _write(folder, "admin", admin)
    write_kubeconfig("admin", admin, topology.server)
    for component in ("kube-controller-manager", "kube-scheduler"):
        write_kubeconfig(component, make_leaf(authority, f"system:{component}"), local)
    kubelets = {authority.pem: None}
    for node in topology.nodes:
        # A kubelet without a certificate creates such an authority itself. It would create it after
        # the API server has read its trusted authorities, and without the address. So we create it.
        own = make_authority(f"{node.name}-ca") if node.is_self_signed else authority
        _write_node(topology, node, folder, authority, own)
        kubelets[own.pem] = None
    cache.write_atomic(folder / KUBELET_AUTHORITIES, b"".join(kubelets))


def write_node(topology: Topology, node: ClusterNode, folder: Path) -> None:
    """Create the files of a later node. The API server trusts them by its own authority."""
    authority = _read(folder, "ca")
    _write_node(topology, node, folder, authority, authority)


def _write_node(
    topology: Topology,
    node: ClusterNode,
    folder: Path,
    authority: CertificateAndKey,
    own: CertificateAndKey,
) -> None:
    """Create the files of a node. `own` signs the kubelet's serving certificate."""
    kubelet = make_leaf(authority, f"system:node:{node.name}", groups=["system:nodes"])
    for program, user in (
        ("kubelet", kubelet),
        ("kube-proxy", make_leaf(authority, "system:kube-proxy")),
    ):
        content = kubeconfig(topology.server, authority.pem, user, topology.name)
        _write_kubeconfig(folder, f"{node.space}-{program}", content)
    serving = make_leaf(own, f"system:node:{node.name}", names=[node.ip, node.name])
    _write(folder, f"{node.space}-kubelet-serving", serving)


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, issuer: x509.Name
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _subject(name: str, groups: Sequence[str]) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(name: CertificateName) -> x509.GeneralName:
    if isinstance(name, str):
        return x509.DNSName(name)
    return x509.IPAddress(ip_address(str(name)))


def _write_kubeconfig(folder: Path, name: str, content: str) -> None:
    cache.write_atomic(folder / f"{name}.kubeconfig", content, 0o600)


def _read(folder: Path, name: str) -> CertificateAndKey:
    key = serialization.load_pem_private_key((folder / f"{name}.key").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return CertificateAndKey(
        x509.load_pem_x509_certificate((folder / f"{name}.crt").read_bytes()), key
    )


def _write(folder: Path, name: str, pair: CertificateAndKey) -> None:
    cache.write_atomic(folder / f"{name}.crt", pair.pem)
    cache.write_atomic(folder / f"{name}.key", pair.key_pem, 0o600)
    folder.chmod(0o700)
