"""Authorization header of an endpoint, current after the renewal of a bound token.

Owns reading the token file: at most once a second, and at once after a 401.

Hazard: the path must be opened again for each read, and never be kept open. The kubelet replaces
symbolic links, so an open file keeps the old token.
"""

import time
from collections.abc import Callable
from pathlib import Path

from kubeio.config.endpoint import Endpoint, is_header_value
from kubeio.errors import CredentialsError

_CHECK_INTERVAL_SECONDS = 1.0  # seconds


class Credentials:
    """Value of the Authorization header. Empty if the client certificate is enough."""

    def __init__(self, endpoint: Endpoint, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._title = endpoint.title
        self._file: Path | None = endpoint.token_file
        self._checked_at = clock()
        self._file_stamp: tuple[int, int] = (0, 0)
        if self._file is not None:
            self._header = ""
            self._read(self._file)
        elif endpoint.token:
            self._header = f"Bearer {endpoint.token}"
        else:
            self._header = endpoint.authorization

    def get_header(self) -> str:
        """Return the header. The file is checked first if the last check is at least 1 s ago."""
        if self._file is not None and self._clock() - self._checked_at >= _CHECK_INTERVAL_SECONDS:
            self._checked_at = self._clock()
            if self._stat_file(self._file) != self._file_stamp:
                self._read(self._file)
        return self._header

    def refresh(self) -> bool:
        """Read the file after a 401, whatever its modification time.

        Returns whether the token changed.
        """
        if self._file is None:
            return False
        before = self._header
        self._read(self._file)
        return self._header != before

    def _read(self, file: Path) -> None:
        try:
            self._file_stamp = self._stat_file(file)
            token = file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as problem:
            raise CredentialsError(
                f"the token for {self._title} cannot be read from {file}. Mount it again"
            ) from problem
        if not token:
            raise CredentialsError(f"the token file {file} for {self._title} is empty")
        if not is_header_value(token):
            raise CredentialsError(
                f"the token file {file} for {self._title} has more than a token. Write it again"
            )
        self._header = f"Bearer {token}"

    def _stat_file(self, file: Path) -> tuple[int, int]:
        try:
            found = file.stat()
        except OSError:
            return (
                self._file_stamp
            )  # between two symbolic links, and the current token is still valid
        return (found.st_mtime_ns, found.st_ino)
