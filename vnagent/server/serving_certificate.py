"""Serving certificate of the agent: key, signing request to vc-manager, and renewal.

The module owns the key, which never leaves this process. It must not know the callers. Hazard: the
request must name exactly the IP of the live pod that the agent's bound token names, and nothing
else. Otherwise the signer refuses it. An old certificate serves until a new one is issued.
"""

import asyncio
import base64
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any

import orjson
import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from telemetry import metrics
from tenancy import wellknown
from tenancy.resources import CERTIFICATE_SIGNING_REQUESTS
from vnagent.client.https_client import BufferedResponse, HttpsClient
from vnagent.protocol.http_heads import InvalidResponseError
from vnagent.stream.tls_contexts import InvalidTrustError

LIFETIME = timedelta(hours=24)
"""Lifetime of a certificate. A longer one would outlive its pod, and another pod may get the pod's
address. A shorter one would fail logs while vc-manager is down for half a day.
"""
POLL_INTERVALS_SECONDS = (0.2, 0.3, 0.5, 1.0, 2.0, 5.0)
"""Poll intervals of a request in seconds. The last one repeats."""
REQUEST_TIMEOUT_SECONDS = 300.0
"""Limit in seconds for an unanswered request. After it the agent creates a new request, in case the
old one was lost.
"""
RETRY_INTERVALS_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)

_log = structlog.get_logger(__name__)


class CertificateNotIssuedError(Exception):
    """No certificate is issued yet. The message has the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPod:
    """The agent's own pod."""

    name: str
    address: str


@dataclass(frozen=True, slots=True, repr=False)
class ServingKeyPair:
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes


def build_signing_request(pod: AgentPod) -> tuple[bytes, bytes]:
    """Return a new key and a signing request for the pod's address, both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, wellknown.AGENT)])
    addresses = x509.SubjectAlternativeName([x509.IPAddress(ip_address(pod.address))])
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(name)
        .add_extension(addresses, critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return private, request.public_bytes(serialization.Encoding.PEM)


def build_csr(pod: AgentPod, request: bytes) -> dict[str, Any]:
    """Return the CertificateSigningRequest object for a request."""
    return {
        "apiVersion": CERTIFICATE_SIGNING_REQUESTS.api_version,
        "kind": CERTIFICATE_SIGNING_REQUESTS.kind,
        "metadata": {"name": f"{pod.name}-{secrets.token_hex(4)}"},
        "spec": {
            "request": base64.b64encode(request).decode("ascii"),
            "signerName": wellknown.AGENT_SERVING_SIGNER,
            "expirationSeconds": int(LIFETIME.total_seconds()),
            "usages": ["digital signature", "server auth"],
        },
    }


def read_issued_certificate(found: dict[str, Any]) -> bytes | None:
    """Return the certificate of a request, None while it waits. Raises NotIssuedError."""
    status = found.get("status") or {}
    for condition in status.get("conditions") or []:
        if condition.get("type") in ("Denied", "Failed"):
            reason, message = condition.get("reason", ""), condition.get("message", "")
            raise CertificateNotIssuedError(f"the request was refused: {reason}: {message}")
    certificate = status.get("certificate")
    return base64.b64decode(certificate) if certificate else None


def compute_renewal(certificate: bytes, key: bytes, pod: AgentPod) -> datetime:
    """Return the time at which half of a certificate's life is over.

    Raises NotIssuedError if it is not for this pod and key, or not usable as a serving certificate.
    """
    try:
        leaf = x509.load_pem_x509_certificate(certificate)
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound) as error:
        raise CertificateNotIssuedError("the signer returned no serving certificate") from error
    if names.get_values_for_type(x509.IPAddress) != [ip_address(pod.address)]:
        raise CertificateNotIssuedError("the signer's certificate is not for this pod's address")
    if leaf.public_key() != serialization.load_pem_private_key(key, password=None).public_key():
        raise CertificateNotIssuedError("the signer's certificate is for another key")
    began, ends = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    return began + (ends - began) / 2


class ServingCertificate:
    """Loop that keeps a valid certificate."""

    def __init__(self, api: HttpsClient, pod: AgentPod) -> None:
        self._api = api
        self._pod = pod

    async def run(self, on_issued: Callable[[ServingKeyPair], None]) -> None:
        """Request a certificate, pass it to `on_issued`, and renew it at half of its life,
        for ever.
        """
        failures = 0
        while True:
            try:
                credential, renewal = await self._request_certificate()
            except (
                OSError,
                InvalidTrustError,
                InvalidResponseError,
                CertificateNotIssuedError,
            ) as error:
                pause = RETRY_INTERVALS_SECONDS[min(failures, len(RETRY_INTERVALS_SECONDS) - 1)]
                failures += 1
                _log.warning("no serving certificate", error=str(error), retry_seconds=pause)
                await asyncio.sleep(pause)
                continue
            failures = 0
            on_issued(credential)
            _log.info("serving certificate in use", renewal=renewal.isoformat())
            await _sleep_until(renewal)

    async def _request_certificate(self) -> tuple[ServingKeyPair, datetime]:
        key, request = await asyncio.to_thread(build_signing_request, self._pod)
        wanted = build_csr(self._pod, request)
        path = CERTIFICATE_SIGNING_REQUESTS.build_path()
        answer = await self._api.request("POST", path, orjson.dumps(wanted))
        _parse(answer, 201)
        certificate = await self._wait_for_certificate(f"{path}/{wanted['metadata']['name']}")
        renewal = compute_renewal(certificate, key, self._pod)
        ends = x509.load_pem_x509_certificate(certificate).not_valid_after_utc
        metrics.set_certificate_times(
            wellknown.AGENT, ends=ends.timestamp(), renewed=renewal.timestamp()
        )
        return ServingKeyPair(certificate, key), renewal

    async def _wait_for_certificate(self, path: str) -> bytes:
        loop = asyncio.get_running_loop()
        gives_up = loop.time() + REQUEST_TIMEOUT_SECONDS
        looks = 0
        while loop.time() < gives_up:
            await asyncio.sleep(POLL_INTERVALS_SECONDS[min(looks, len(POLL_INTERVALS_SECONDS) - 1)])
            looks += 1
            certificate = read_issued_certificate(_parse(await self._api.request("GET", path), 200))
            if certificate is not None:
                return certificate
        raise CertificateNotIssuedError(
            "vc-manager has not answered the certificate request. Check that it is running"
        )


def _parse(answer: BufferedResponse, wanted: int) -> dict[str, Any]:
    try:
        document = orjson.loads(answer.body)
    except orjson.JSONDecodeError as error:
        raise CertificateNotIssuedError(
            f"the API server answered {answer.status} without JSON"
        ) from error
    if answer.status != wanted or not isinstance(document, dict):
        message = document.get("message", "") if isinstance(document, dict) else ""
        raise CertificateNotIssuedError(f"the API server answered {answer.status}: {message}")
    return document


async def _sleep_until(moment: datetime) -> None:
    """Sleep in steps of at most 60 s.

    The clock of a suspended machine jumps, which a single sleep would not notice.
    """
    while (left := (moment - datetime.now(UTC)).total_seconds()) > 0:  # noqa: ASYNC110 - a clock
        await asyncio.sleep(min(left, 60.0))
