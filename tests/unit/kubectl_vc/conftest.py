"""A throw-away authority."""

import pytest
import trustme


@pytest.fixture(scope="session")
def authority() -> bytes:
    return trustme.CA().cert_pem.bytes()
