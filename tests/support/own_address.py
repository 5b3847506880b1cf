"""An address of this machine that others could reach, because an address that every machine has is
refused for a super cluster.
"""

import socket

import pytest


def _own_address() -> str:
    """Return an address that is not loopback, empty when there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        try:
            found.connect(("192.0.2.1", 9))
        except OSError:
            return ""
        address = found.getsockname()[0]
    return "" if address.startswith("127.") else address


OWN = _own_address()


def with_own_address(text: str) -> str:
    """Return a URL or kubeconfig with this machine's own address instead of loopback."""
    return text.replace("127.0.0.1", OWN)


needs_address = pytest.mark.skipif(not OWN, reason="this machine has no address but loopback")
