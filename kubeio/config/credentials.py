"""The Authorization header of an endpoint, fresh when a bound token was renewed.

Owns reading the token file: looked at no more than once a second, and at once after a 401. Hazard:
the kubelet swaps symbolic links, so the path is followed anew each time and never kept open.
"""

import time
from collections.abc import Callable
from pathlib import Path

from kubeio.config.endpoint import Endpoint, is_token
from kubeio.errors import CredentialsProblem

_LOOK_EVERY = 1.0  # seconds


class Credentials:
    """What to send as Authorization; empty when the certificate says it all."""

    def __init__(self, endpoint: Endpoint, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._title = endpoint.title
        self._file: Path | None = endpoint.token_file
        self._looked = clock()
        self._seen: tuple[int, int] = (0, 0)
        if self._file is not None:
            self._header = ""
            self._read(self._file)
        elif endpoint.token:
            self._header = f"Bearer {endpoint.token}"
        else:
            self._header = endpoint.authorization

    def header(self) -> str:
        """Return the header, after a look at the file when the last one is a while ago."""
        if self._file is not None and self._clock() - self._looked >= _LOOK_EVERY:
            self._looked = self._clock()
            if self._stamp(self._file) != self._seen:
                self._read(self._file)
        return self._header

    def refresh(self) -> bool:
        """After a 401: read the file whatever its stamp; tell whether the token is another one."""
        if self._file is None:
            return False
        before = self._header
        self._read(self._file)
        return self._header != before

    def _read(self, file: Path) -> None:
        try:
            self._seen = self._stamp(file)
            token = file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as problem:
            raise CredentialsProblem(
                f"the token for {self._title} cannot be read from {file}; mount it again"
            ) from problem
        if not token:
            raise CredentialsProblem(f"the token file {file} for {self._title} is empty")
        if not is_token(token):
            raise CredentialsProblem(
                f"the token file {file} for {self._title} holds more than a token; write it anew"
            )
        self._header = f"Bearer {token}"

    def _stamp(self, file: Path) -> tuple[int, int]:
        try:
            found = file.stat()
        except OSError:
            return self._seen  # between two symbolic links; the token in hand is still good
        return (found.st_mtime_ns, found.st_ino)
