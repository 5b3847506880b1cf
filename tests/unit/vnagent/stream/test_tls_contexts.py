"""Authorities that a connection to a server trusts."""

from __future__ import annotations

import ssl

import trustme

from vnagent.stream import tls_contexts


def _shake(client: ssl.SSLObject, server: ssl.SSLObject, wires: tuple[ssl.MemoryBIO, ...]) -> None:
    to_client, from_client, to_server, from_server = wires
    open_ends = [client, server]
    for _ in range(10):
        for end in list(open_ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            finally:
                to_server.write(from_client.read())
                to_client.write(from_server.read())
            open_ends.remove(end)
    assert not open_ends


def _meet(authorities: bytes, leaf: trustme.LeafCert, name: str) -> None:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    leaf.configure_cert(serving)
    wires = tuple(ssl.MemoryBIO() for _ in range(4))
    to_client, from_client, to_server, from_server = wires
    context = tls_contexts.create_client_context(authorities)
    client = context.wrap_bio(to_client, from_client, server_hostname=name)
    server = serving.wrap_bio(to_server, from_server, server_side=True)
    _shake(client, server, wires)


def test_a_signing_authority_need_not_be_a_root_as_in_go():
    root = trustme.CA()
    signer = root.create_child_ca()
    _meet(signer.cert_pem.bytes(), signer.issue_cert("10.0.0.5"), "10.0.0.5")


def test_another_name_and_another_authority_are_not_believed():
    signer = trustme.CA().create_child_ca()
    leaf = signer.issue_cert("10.0.0.5")
    for authority, name in ((signer, "10.0.0.6"), (trustme.CA(), "10.0.0.5")):
        try:
            _meet(authority.cert_pem.bytes(), leaf, name)
        except ssl.SSLCertVerificationError:
            continue
        raise AssertionError("was believed")
