import hashlib
from dataclasses import replace
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.support.vcmanager.factories import NOW
from vcmanager.pki import authority, checks
from vcmanager.pki.authority import CertificateSubject, KeyPair

DAY = timedelta(days=1)
KEY_USAGES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)
SUBJECT = CertificateSubject(
    common_name="x",
    organizations=("g",),
    dns_names=("a.example",),
    addresses=("10.0.0.1",),
    uris=("vc://u/r",),
    usages=frozenset({"client"}),
)
ISSUER = authority.make_authority("one", now=NOW)
OTHER = authority.make_authority("one", now=NOW)
LEAF = authority.make_leaf(ISSUER, SUBJECT, lifetime=90 * DAY, now=NOW)
ELSE = authority.make_leaf(ISSUER, SUBJECT, lifetime=90 * DAY, now=NOW)


def fault(
    pair: KeyPair | None, subject: CertificateSubject = SUBJECT, issuer: KeyPair = ISSUER, **more
):
    return checks.find_leaf_fault(
        pair, subject, issuer, **{"lifetime": 90 * DAY, "now": NOW + DAY, **more}
    )


def test_a_good_leaf_has_no_fault():
    assert fault(LEAF) is None


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        (None, "missing"),
        (KeyPair(b"", b""), "unreadable"),
        (KeyPair(b"nonsense", LEAF.key), "unreadable"),
        (KeyPair(LEAF.certificate, b"nonsense"), "unreadable"),
        (KeyPair(LEAF.certificate[:200], LEAF.key), "unreadable"),
        (KeyPair(LEAF.certificate, ELSE.key), "key mismatch"),
    ],
)
def test_a_leaf_that_cannot_be_used_is_recognised(pair, expected):
    assert fault(pair) == expected


def test_an_issuer_of_the_same_name_and_another_key_is_foreign():
    assert fault(LEAF, issuer=OTHER) == "foreign issuer"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"common_name": "y"}, "other subject"),
        ({"organizations": ()}, "other subject"),
        ({"dns_names": ()}, "other names"),
        ({"dns_names": ("a.example", "b.example")}, "other names"),
        ({"addresses": ("10.0.0.2",)}, "other names"),
        ({"uris": ("vc://u/other",)}, "other names"),
        ({"usages": frozenset({"server"})}, "other usages"),
        ({"usages": frozenset({"server", "client"})}, "other usages"),
    ],
)
def test_a_leaf_that_is_no_longer_what_is_wanted_is_recognised(change, expected):
    assert fault(LEAF, subject=replace(SUBJECT, **change)) == expected


@pytest.mark.parametrize(
    ("days", "expected"),
    [(59, None), (60, "due for renewal"), (89, "due for renewal"), (200, "due for renewal")],
)
def test_a_leaf_is_renewed_at_two_thirds_and_after_its_end(days, expected):
    assert fault(LEAF, now=NOW + days * DAY) == expected


def test_a_shorter_lifetime_takes_effect_at_once():
    assert fault(LEAF, lifetime=10 * DAY) == "lifetime too long"


def test_a_longer_lifetime_waits_for_the_next_renewal():
    assert fault(LEAF, lifetime=365 * DAY) is None


def test_names_in_another_spelling_are_the_same():
    subject = replace(SUBJECT, addresses=("fd00:0:0::1",))
    pair = authority.make_leaf(ISSUER, subject, lifetime=90 * DAY, now=NOW)
    assert fault(pair, subject=replace(subject, addresses=("fd00::1",))) is None


def test_a_kind_of_key_that_we_do_not_know_is_unreadable():
    """A curve that OpenSSL knows and this library does not."""
    strange = b"""-----BEGIN PRIVATE KEY-----
MHkCAQAwEAYHKoZIzj0CAQYFK4EEACAEYjBgAgEBBB0Axq1H+13V8vzw/6l9zNMN
OndtQdRyJvqIGsDfWqE8AzoABFo3bA7mwkH10BjLA7cM/ZPMgb07XDlhtqmab6Rr
DsGhMz+syr7KxrFs7qMi78ZTAyx/Qc/LHldR
-----END PRIVATE KEY-----
"""
    assert fault(KeyPair(LEAF.certificate, strange)) == "unreadable"


def test_authorities_are_judged():
    assert checks.find_authority_fault(ISSUER) is None
    assert checks.find_authority_fault(LEAF) == "other usages"
    assert checks.find_authority_fault(KeyPair(ISSUER.certificate, OTHER.key)) == "key mismatch"
    assert checks.find_authority_fault(KeyPair(b"", ISSUER.key)) == "unreadable"


def test_an_authority_whose_key_may_sign_no_certificates_is_not_used():
    """T2-37."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "odd")])

    def build(usages: dict[str, bool] | None) -> KeyPair:
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(1)
            .not_valid_before(NOW)
            .not_valid_after(NOW + 90 * DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        )
        if usages is not None:
            none = dict.fromkeys(KEY_USAGES, False)
            builder = builder.add_extension(x509.KeyUsage(**none | usages), critical=True)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, serialization.NoEncryption())
        return KeyPair(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM), private)

    assert checks.find_authority_fault(build({"digital_signature": True})) == "other usages"
    assert checks.find_authority_fault(build({"key_cert_sign": True})) is None
    assert checks.find_authority_fault(build(None)) is None


def test_service_account_keys_are_judged():
    keys = authority.make_service_account_keys()
    others = authority.make_service_account_keys()
    assert checks.find_keys_fault(keys) is None
    assert checks.find_keys_fault(KeyPair(keys.certificate, others.key)) == "key mismatch"
    assert checks.find_keys_fault(KeyPair(keys.certificate, b"")) == "unreadable"


def test_verified_keys_are_bounded_and_the_oldest_goes_first():
    verified = checks._VerifiedKeys(2)
    keys = [authority.make_service_account_keys().key for _ in range(3)]
    for key in (*keys, keys[2]):
        verified.load_public_key(key)
    assert list(verified._digests) == [hashlib.sha256(key).digest() for key in keys[1:]]


@pytest.mark.parametrize(
    ("requested", "age", "expected"),
    [
        (None, 60, None),
        (-1, 60, None),  # issued after the request
        (0, 60, None),
        (30, 60, "renewal requested"),
        (5, 9, None),  # too young
        (5, 10, "renewal requested"),
    ],
)
def test_a_request_renews_older_certificates_of_ten_minutes(requested, age, expected):
    """Times are in minutes after the certificate was issued."""
    at = None if requested is None else NOW + timedelta(minutes=requested)
    assert fault(LEAF, now=NOW + timedelta(minutes=age), requested=at) == expected


def test_renewals_of_tenants_are_spread_over_a_fifth_of_the_window():
    pair = authority.make_authority("x", now=NOW)
    earliest, end = checks.compute_renewal(pair), checks.get_expiry(pair)
    found = [checks.compute_renewal(pair, f"uid-{number}") for number in range(200)]
    shares = sorted((each - earliest) / (end - earliest) for each in found)
    assert 0 <= shares[0] < 0.02
    assert 0.18 < shares[-1] <= 0.2
    assert found[0] == checks.compute_renewal(pair, "uid-0")


def test_an_authority_ends():
    end = checks.get_expiry(ISSUER)
    assert not checks.has_ended(ISSUER.certificate, end - DAY)
    assert checks.has_ended(ISSUER.certificate, end)
    assert not checks.has_ended(b"", end)


def test_a_certificate_that_ends_with_its_authority_is_not_renewed_again_and_again():
    end = checks.get_expiry(ISSUER)
    last = authority.make_leaf(ISSUER, SUBJECT, lifetime=90 * DAY, now=end - 10 * DAY)
    assert checks.get_expiry(last) == end
    assert checks.compute_renewal(last, "", ISSUER) == end
    assert fault(last, now=end - DAY) is None
    assert fault(last, now=end) == "due for renewal"
