"""Which certificates stand for a tenant: one kind does, all others do not."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.support.vnagent import certificates as made
from tests.support.vnagent.certificates import DAY, KEY, URI, VALID, VC_UID, named
from vnagent.authz.client_identity import InvalidIdentityError, read_identity

AUTHORITY = made.make_authority()
IMPOSTOR = made.make_authority()
OPEN_AUTHORITY = made.make_authority(path_length=None)
BELOW = made.make_authority("below", parent=OPEN_AUTHORITY)


def who(leaf: made.ClientCertificate, authority: made.SigningAuthority = AUTHORITY):
    """Identify a leaf now."""
    authorities = [AUTHORITY.certificate, OPEN_AUTHORITY.certificate]
    return read_identity(made.der(authority, leaf), authorities, datetime.now(UTC))


@pytest.mark.parametrize(
    "leaf",
    [
        VALID,
        replace(VALID, common_name="anything"),
        replace(VALID, key=rsa.generate_private_key(65537, 2048)),
        replace(VALID, key=ec.generate_private_key(ec.SECP384R1())),
        replace(VALID, key=ed25519.Ed25519PrivateKey.generate()),
        replace(VALID, digest=hashes.SHA384()),
        replace(VALID, names=(*VALID.names, x509.DNSName("apiserver-svc"))),
        replace(VALID, usages=(ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)),
    ],
)
def test_a_valid_certificate_is_its_tenant(leaf):
    """The UID and the key come out of the URI, whatever else is said."""
    caller = who(leaf)
    assert (caller.vc_uid, caller.key) == (VC_UID, KEY)
    assert caller.not_after > datetime.now(UTC)


UUID = VC_UID.upper()
INVALID = {
    "expired": replace(VALID, begins=-3 * DAY, ends=-DAY),
    "not yet valid": replace(VALID, begins=DAY, ends=2 * DAY),
    "no names at all": replace(VALID, names=()),
    "a common name alone": replace(VALID, names=(), common_name=KEY),
    "the identity as a DNS name": replace(VALID, names=(x509.DNSName("vc." + KEY),)),
    "the identity as an IP": replace(VALID, names=(x509.IPAddress(ip_address("10.0.0.1")),)),
    "the identity as mail": replace(VALID, names=(x509.RFC822Name(f"{VC_UID}@{KEY}"),)),
    "two identities": named(URI, URI.replace("one", "two")),
    "the same identity twice": named(URI, URI),
    "an identity and another URI": named(URI, "spiffe://cluster/ns/a"),
    "another scheme": named(URI.replace("vc://", "https://")),
    "another case": named(URI.upper()),
    "an upper-case UID": named(f"vc://{UUID}/{KEY}"),
    "no key": named(f"vc://{VC_UID}"),
    "an empty key": named(f"vc://{VC_UID}/"),
    "no UID": named(f"vc:///{KEY}"),
    "a short UID": named(f"vc://{VC_UID[:-1]}/{KEY}"),
    "a path behind": named(URI + "/more"),
    "a query behind": named(URI + "?a=b"),
    "a user before": named(URI.replace("vc://", "vc://root@")),
    "a port": named(f"vc://{VC_UID}:1/{KEY}"),
    "a key that is no label": named(f"vc://{VC_UID}/-{KEY}"),
    "a percent sign": named(f"vc://{VC_UID}/default%2db41df0-one"),
    "a line end": named(URI + "\n"),
    "no usages": replace(VALID, usages=None),
    "a server's usage": replace(VALID, usages=(ExtendedKeyUsageOID.SERVER_AUTH,)),
    "any usage": replace(VALID, usages=(ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,)),
    "a CA certificate": replace(VALID, is_authority=True),
    "a key not for signatures": replace(VALID, signs=False),
    "a short RSA key": replace(VALID, key=rsa.generate_private_key(65537, 1024)),  # noqa: S505
    "a short curve": replace(VALID, key=ec.generate_private_key(ec.SECP224R1())),
}


@pytest.mark.parametrize("leaf", INVALID.values(), ids=INVALID)
def test_every_other_certificate_has_no_identity(leaf):
    """SEC-01, SEC-02: our own signature is not enough."""
    with pytest.raises(InvalidIdentityError):
        who(leaf)


@pytest.mark.parametrize("signer", [IMPOSTOR, BELOW], ids=["same name", "below ours"])
def test_only_our_authority_signs_and_does_so_itself(signer):
    """SEC-02: an authority of our name, and one that ours has signed."""
    with pytest.raises(InvalidIdentityError, match="not signed directly"):
        who(VALID, signer)


def test_a_self_signed_certificate_has_no_identity():
    """Not even one that says it was issued by our authority."""
    own = made.make_authority("kube-apiserver-kubelet-client")
    with pytest.raises(InvalidIdentityError):
        who(VALID, own)


@pytest.mark.parametrize("garbage", [b"", b"\x30", b"\x30\x03\x02\x01\x01", bytes(100)])
def test_garbage_has_no_identity(garbage):
    """An unreadable certificate is refused, without an exception."""
    with pytest.raises(InvalidIdentityError, match="cannot be read"):
        read_identity(garbage, [AUTHORITY.certificate], datetime.now(UTC))


def test_damaged_certificates_have_no_identity():
    """A changed byte breaks the form or the signature, wherever it is in what is signed."""
    good = made.der(AUTHORITY, VALID)
    now = datetime.now(UTC)
    signed = x509.load_der_x509_certificate(good).tbs_certificate_bytes
    begins = good.index(signed)
    for at in range(begins + len(signed)):
        damaged = good[:at] + bytes([good[at] ^ 0x01]) + good[at + 1 :]
        with pytest.raises(InvalidIdentityError):
            read_identity(damaged, [AUTHORITY.certificate], now)


def test_an_identity_ends_with_its_certificate():
    """Validity is read for the moment that is asked."""
    good = made.der(AUTHORITY, VALID)
    authorities = [AUTHORITY.certificate]
    ends = read_identity(good, authorities, datetime.now(UTC)).not_after
    assert read_identity(good, authorities, ends).not_after == ends
    with pytest.raises(InvalidIdentityError, match="not valid at this time"):
        read_identity(good, authorities, ends + timedelta(seconds=1))
