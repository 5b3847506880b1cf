"""FIG-02, SEC-01, SEC-02: client certificates in real handshakes, and each caller's identity."""

import asyncio
import random
import ssl
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.support import tls_sockets
from tests.support.vnagent import certificates, running_agent
from tests.support.vnagent.certificates import (
    VALID,
    ClientCertificate,
    SigningAuthority,
    make_authority,
)
from vnagent.server import audit

FULL = 10_000
ONE_IN = 10
"""How many certificates there are for each valid one."""

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
DAY = timedelta(days=1)
URI = x509.UniformResourceIdentifier
BOTH = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH)
OTHER_PURPOSES = (
    (ExtendedKeyUsageOID.SERVER_AUTH,),
    (ExtendedKeyUsageOID.CODE_SIGNING, ExtendedKeyUsageOID.EMAIL_PROTECTION),
    (ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,),
    None,
)


@dataclass(frozen=True)
class ShownCertificate:
    """The certificate of a caller, and the identity that it must get."""

    kind: str
    pem: bytes = b""
    """Key, certificate and chain. Empty: none is shown."""
    identity: tuple[str, str] | None = None
    """UID and key of the tenant, None when no one must be let in."""


class CertificateMaker:
    """Makes certificates by chance. `ours` is the authority that the agent trusts."""

    def __init__(self, chance: random.Random, ours: SigningAuthority) -> None:
        self._chance = chance
        self._ours = ours
        self._strangers = (make_authority(), make_authority("somebody else"))
        self._below = make_authority("below", parent=ours, path_length=None)
        self._rsa = tuple(rsa.generate_private_key(65537, 2048) for _ in range(2))
        self._weak = rsa.generate_private_key(65537, 1024)  # noqa: S505 - the point
        self._invalid: dict[str, Callable[[], tuple[bytes, ...] | bytes]] = {
            "none": lambda: b"",
            "stranger": self._by_a_stranger,
            "self-signed": self._by_himself,
            "chain": self._by_a_chain,
            "tampered": self._tampered,
            "time": lambda: self._leaf(**chance.choice((_past(chance), _future(chance)))),
            "purpose": lambda: self._leaf(usages=chance.choice(OTHER_PURPOSES)),
            "authority": lambda: self._leaf(is_authority=True),
            "usage": lambda: self._leaf(signs=False),
            "critical": lambda: self._leaf(unknown_critical=True),
            "weak key": lambda: self._leaf(key=self._weak),
            "weak curve": lambda: self._leaf(key=ec.generate_private_key(ec.SECP224R1())),
            "weak digest": lambda: self._leaf(digest=hashes.SHA224()),
            "name": self._misnamed,
        }

    def valid(self) -> ShownCertificate:
        """Return one that must be let in, in one of the forms that it may have."""
        chance = self._chance
        vc_uid, key = str(uuid.UUID(int=chance.getrandbits(128), version=4)), self._label()
        private = chance.choice((None, ec.generate_private_key(ec.SECP384R1()), *self._rsa))
        if chance.random() < 0.1:
            private = ed25519.Ed25519PrivateKey.generate()
        names: tuple[x509.GeneralName, ...] = (URI(f"vc://{vc_uid}/{key}"),)
        if chance.random() < 0.2:
            names = (x509.DNSName("kube-system"), *names)
        leaf = replace(
            VALID,
            common_name=chance.choice(("kube", "system:masters", "default-b41df0-one")),
            names=names,
            usages=chance.choice((VALID.usages, BOTH)),
            begins=-chance.randint(1, 400) * DAY,
            ends=chance.randint(1, 400) * DAY,
            digest=chance.choice((hashes.SHA256(), hashes.SHA384(), hashes.SHA512())),
            key=private,
        )
        return ShownCertificate("valid", _pem(self._ours, leaf), (vc_uid, key))

    def invalid(self) -> ShownCertificate:
        """Return one that no one must be let in with."""
        kind = self._chance.choice(list(self._invalid))
        made = self._invalid[kind]()
        return ShownCertificate(kind, made if isinstance(made, bytes) else b"".join(made))

    def _leaf(self, **other: object) -> bytes:
        return _pem(self._ours, self._named(**other))

    def _named(self, **other: object) -> ClientCertificate:
        """Return a leaf that is someone's."""
        vc_uid = uuid.UUID(int=self._chance.getrandbits(128), version=4)
        names = (URI(f"vc://{vc_uid}/{self._label()}"),)
        return replace(VALID, **{"names": names, **other})  # type: ignore[arg-type]

    def _label(self) -> str:
        letters = "abcdefghijklmnopqrstuvwxyz0123456789"
        size = self._chance.randint(1, 30)
        return "-".join("".join(self._chance.choices(letters, k=size)) for _ in range(2))

    def _by_a_stranger(self) -> bytes:
        """An authority of our authority's name among them, its own certificate sent along."""
        stranger = self._chance.choice(self._strangers)
        return _pem(stranger, self._named()) + stranger.pem * self._chance.randint(0, 1)

    def _by_himself(self) -> bytes:
        key = ec.generate_private_key(ec.SECP256R1())
        himself = SigningAuthority(key, certificates.sign(self._ours, self._named(key=key))[0])
        return _pem(himself, self._named(key=key))

    def _by_a_chain(self) -> bytes:
        """Below an authority that ours has signed, or below a leaf of ours."""
        if self._chance.random() < 0.5:
            return _pem(self._below, self._named()) + self._below.pem
        key = ec.generate_private_key(ec.SECP256R1())
        leaf = SigningAuthority(key, certificates.sign(self._ours, self._named(key=key))[0])
        return _pem(leaf, self._named()) + leaf.pem

    def _tampered(self) -> bytes:
        """Another name under the signature of the first, or a signature with a bit changed."""
        certificate, key = certificates.sign(self._ours, self._named())
        der = bytearray(certificate.public_bytes(serialization.Encoding.DER))
        at = der.find(b"vc://") + 5 if self._chance.random() < 0.5 else len(der) - 20
        was = der[at]
        der[at] = ord("0") if was != ord("0") else ord("1")
        pem = ssl.DER_cert_to_PEM_cert(bytes(der)).encode()
        return pem + _key_pem(key)

    def _misnamed(self) -> bytes:
        """Our own signature on something that names no tenant, or two."""
        vc_uid, key = certificates.VC_UID, self._label()
        good = f"vc://{vc_uid}/{key}"
        names = self._chance.choice(
            (
                (),
                (x509.DNSName(key),),
                (x509.DirectoryName(x509.Name([])),),
                (URI(good), URI(good.replace(key, "other"))),
                (URI(good), URI(good)),
                *((URI(text),) for text in _odd(good, vc_uid, key)),
            )
        )
        return _pem(self._ours, self._named(common_name=key, names=names))


def _odd(good: str, vc_uid: str, key: str) -> tuple[str, ...]:
    upper = good.replace(vc_uid, vc_uid.upper())
    return (
        *(upper, good + "/", good + "?", good + "#a", good + "\n", " " + good, good + "\0x"),
        *(good.replace("vc:", "VC:"), good.replace("vc:", "http:"), good.replace("vc:", "spiffe:")),
        *(f"vc://{key}/{vc_uid}", f"vc://{vc_uid}", f"vc://{vc_uid}/", f"vc:///{key}", vc_uid, ""),
        *(f"vc://{vc_uid}@x/{key}", f"vc://{vc_uid}/../{key}", f"vc://{vc_uid}/{key}%2f"),
        *(f"vc://{vc_uid}/-{key}", f"vc://{vc_uid}/{'k' * 64}", f"vc://{vc_uid}/{key}A"),
    )


def _past(chance: random.Random) -> dict[str, timedelta]:
    ends = timedelta(seconds=chance.choice((60, 3600, 86_400)))
    return {"begins": -400 * DAY, "ends": -ends}


def _future(chance: random.Random) -> dict[str, timedelta]:
    return {"begins": timedelta(hours=chance.randint(1, 9000)), "ends": 401 * DAY}


def _pem(signer: SigningAuthority, leaf: ClientCertificate) -> bytes:
    certificate, key = certificates.sign(signer, leaf)
    return certificate.public_bytes(serialization.Encoding.PEM) + _key_pem(key)


def _key_pem(key: certificates.PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


async def run(count: int, seed: int) -> str:
    """Try `count` certificates. Return a sentence, or fail with the one that did not hold."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    met: list[audit.RequestAudit] = []
    seen: Counter[tuple[str, str]] = Counter()
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as name:
        patch.setattr(audit, "write_audit_record", met.append)
        folder = Path(name)
        # One that may have authorities below it: the handshake alone would let theirs in.
        ours = make_authority(path_length=None)
        kubelet = running_agent.FakeKubelet()
        async with running_agent.staged(folder, kubelet, client_authority=ours) as set_up:
            maker = CertificateMaker(chance, ours)
            for number in range(count):
                shown = maker.valid() if number % ONE_IN == 0 else maker.invalid()
                met.clear()
                context = _context(set_up, folder, shown)
                got = await asyncio.to_thread(_ask, set_up.port, context)
                found = [(session.caller.vc_uid, session.caller.key) for session in met]
                wanted = [] if shown.identity is None else [shown.identity]
                told = (shown.kind, shown.pem, got, found)
                assert found == wanted, told
                assert got.startswith(b"HTTP/1.1 200 ") == bool(wanted), told
                ended = "let in" if wanted else "refused by name" if got else "refused"
                seen[shown.kind, ended] += 1
            assert set_up.kubelet.connections == 0
            assert set_up.server.listener.pending.count == 0
    listed = ", ".join(f"{kind} {end} {times:,}" for (kind, end), times in sorted(seen.items()))
    return (
        f"{count:,} certificates by handshake, {seen['valid', 'let in']:,} valid and known as"
        f" theirs, none wrongly accepted or refused, no kubelet dialled ({listed})"
    )


def _context(
    set_up: running_agent.RunningAgent, folder: Path, shown: ShownCertificate
) -> ssl.SSLContext:
    context = tls_sockets.client_context(set_up.serving_authority)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")  # or our own side would refuse the weak ones
    if shown.pem:
        path = folder / "shown.pem"
        path.write_bytes(shown.pem)
        context.load_cert_chain(path)
    return context


def _ask(port: int, context: ssl.SSLContext) -> bytes:
    try:
        with tls_sockets.dial(port, context) as peer:
            peer.sendall(HEALTH)
            return tls_sockets.read_all(peer)
    except OSError:
        return b""
