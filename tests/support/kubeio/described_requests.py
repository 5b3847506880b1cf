"""Description of a request in tests of errors."""

from __future__ import annotations

from kubeio.errors import RequestDescription

REQUEST = RequestDescription("https://super", "POST", "/apis/x")
