"""Client of one bucket of an S3 server: it uploads, downloads and deletes the files of a snapshot.

Signs requests by AWS Signature Version 4
(https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html), with the bucket in
the path. Must not import anything outside the standard library and its own folder.

Hazard: the server's certificate is always verified, and no redirect is followed. The request would
otherwise reach a server that the platform administrator did not name.
"""

import errno
import hashlib
import hmac
import http.client
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, urlsplit

from vcmanager.snapshots.file_store import SNAPSHOT_MISSING, WorkerError

ACCESS_DENIED = "S3AccessDenied"
BUCKET_NOT_FOUND = "S3BucketNotFound"
CREDENTIALS_MISSING = "S3CredentialsMissing"
ENDPOINT_NOT_ALLOWED = "S3EndpointNotAllowed"
REFUSED = "S3Refused"
TOO_LARGE = "S3FileTooLarge"
UNREACHABLE = "S3Unreachable"
UNTRUSTED = "S3Untrusted"
MAX_BYTES = 5 * 1024**3
"""Size in bytes of the largest object that one request may upload. S3 documents it."""
_REQUEST_SECONDS = 60.0
_ATTEMPTS = 3
"""Number of attempts if the server cannot be reached, or answers with 5xx."""
_RETRY_SECONDS = 2.0
_CHUNK = 256 * 1024
_EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
_MAX_ANSWER = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Bucket:
    """A bucket, and the credentials for it."""

    endpoint: str
    bucket: str
    prefix: str
    region: str
    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)
    ca_file: Path | None = None
    """None: the authorities of the system."""

    @property
    def title(self) -> str:
        """Return the bucket in messages."""
        return f"the bucket {self.bucket} of {self.endpoint}"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Refuse. The answer is then an HTTPError."""
        return


class S3Client:
    """Requests to one bucket."""

    def __init__(self, bucket: S3Bucket, sleep: Callable[[float], None] = time.sleep) -> None:
        """Read the authorities. Raises WorkerError if they cannot be read."""
        self._bucket = bucket
        self._sleep = sleep
        ca_file = bucket.ca_file
        try:
            context = ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
        except (OSError, ssl.SSLError) as problem:
            raise WorkerError(
                UNTRUSTED, f"ca.crt for {bucket.title} is missing or no certificate"
            ) from problem
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=context), _NoRedirects()
        )

    def upload(self, path: Path, checksum: str) -> None:
        """Upload a file, whose SHA-256 the server checks."""
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise WorkerError(TOO_LARGE, f"{path.name} has {size} bytes, and S3 allows {MAX_BYTES}")

        def send() -> None:
            with path.open("rb") as file, self._open("PUT", path.name, checksum, file, size):
                pass

        self._attempt(send)

    def download(self, path: Path) -> None:
        """Download a file to its path. The path exists only after all bytes were received."""
        part = path.with_name(f"{path.name}.part")

        def fetch() -> None:
            with self._open("GET", path.name, _EMPTY_SHA256) as answer, part.open("wb") as file:
                while chunk := answer.read(_CHUNK):
                    file.write(chunk)
                length = answer.headers.get("Content-Length", "")
                if length.isdecimal() and file.tell() != int(length):
                    raise http.client.IncompleteRead(b"", int(length) - file.tell())

        try:
            self._attempt(fetch)
            part.rename(path)
        finally:
            part.unlink(missing_ok=True)

    def delete(self, name: str) -> None:
        """Delete a file. A missing file or bucket is no failure."""

        def send() -> None:
            with self._open("DELETE", name, _EMPTY_SHA256):
                pass

        try:
            self._attempt(send)
        except WorkerError as problem:
            if problem.reason not in (SNAPSHOT_MISSING, BUCKET_NOT_FOUND):
                raise

    def _attempt(self, call: Callable[[], None]) -> None:
        """Call, and call again while the server cannot be reached."""
        for number in range(1, _ATTEMPTS + 1):
            try:
                return call()
            except WorkerError as problem:
                if problem.reason != UNREACHABLE or number == _ATTEMPTS:
                    raise
            self._sleep(_RETRY_SECONDS * number)
        return None

    @contextmanager
    def _open(
        self,
        method: str,
        name: str,
        checksum: str,
        body: IO[bytes] | None = None,
        size: int | None = None,
    ) -> Iterator[Any]:
        """Send one request. Yields the answer. Raises WorkerError with the reason of a failure."""
        bucket = self._bucket
        path = quote(f"/{bucket.bucket}/{bucket.prefix}{name}", safe="/-_.~")
        headers = sign(bucket, method, path, checksum, datetime.now(UTC))
        if size is not None:
            headers["Content-Length"] = str(size)
        request = urllib.request.Request(  # noqa: S310 - the endpoint begins with https
            f"{bucket.endpoint}{path}", data=body, method=method, headers=headers
        )
        try:
            with self._opener.open(request, timeout=_REQUEST_SECONDS) as answer:
                yield answer
        except urllib.error.HTTPError as problem:
            raise _explain_answer(bucket, name, problem) from problem
        except (OSError, http.client.HTTPException) as problem:
            if getattr(problem, "errno", None) == errno.ENOSPC:
                raise  # the volume of the pod, and not the server
            raise _explain_connection(bucket, problem) from problem


def read_bucket(options: Any) -> S3Bucket:
    """Return the bucket of a step's flags. Raises WorkerError if credentials are missing.

    Hazard: the credentials are only for servers that their Secret lists. The author of a snapshot
    chooses the server, and would otherwise receive signed requests of the platform administrator.
    """
    folder: Path = options.s3_credentials
    found = {
        key: (folder / key).read_text().strip() if (folder / key).exists() else ""
        for key in ("accessKeyID", "secretAccessKey", "sessionToken", "endpoints")
    }
    if not found["accessKeyID"] or not found["secretAccessKey"]:
        raise WorkerError(
            CREDENTIALS_MISSING,
            f"the Secret {options.s3_credentials_secret} with accessKeyID and secretAccessKey is"
            " missing in the root namespace",
        )
    if not is_allowed(options.s3_endpoint, found["endpoints"]):
        raise WorkerError(
            ENDPOINT_NOT_ALLOWED,
            f"the server {options.s3_endpoint} is not in the key endpoints of the Secret"
            f" {options.s3_credentials_secret}. Your platform administrator can add it",
        )
    return S3Bucket(
        endpoint=options.s3_endpoint,
        bucket=options.s3_bucket,
        prefix=options.s3_prefix,
        region=options.s3_region,
        access_key_id=found["accessKeyID"],
        secret_access_key=found["secretAccessKey"],
        session_token=found["sessionToken"],
        ca_file=options.s3_ca,
    )


def is_allowed(endpoint: str, listed: str) -> bool:
    """Return whether an endpoint is one of a list. Spaces, commas and line ends separate them."""
    allowed = {_read_server(each) for each in listed.replace(",", " ").split()}
    return _read_server(endpoint) in allowed - {None}


def _read_server(endpoint: str) -> tuple[str, int] | None:
    """Return host and port of an https URL without a path. None: it is something else."""
    try:
        parts = urlsplit(endpoint)
        port = parts.port or 443
    except ValueError:
        return None
    if parts.scheme != "https" or not parts.hostname or parts.path.strip("/") or parts.query:
        return None
    return parts.hostname.lower(), port


def sign(bucket: S3Bucket, method: str, path: str, checksum: str, now: datetime) -> dict[str, str]:
    """Return the headers of a request with its signature. `path` is already quoted."""
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    headers = {
        "host": urlsplit(bucket.endpoint).netloc,
        "x-amz-content-sha256": checksum,
        "x-amz-date": stamp,
    }
    if bucket.session_token:
        headers["x-amz-security-token"] = bucket.session_token
    names = ";".join(sorted(headers))
    canonical = "\n".join(
        (
            *(method, path, ""),
            *(f"{name}:{headers[name]}" for name in sorted(headers)),
            *("", names, checksum),
        )
    )
    scope = f"{day}/{bucket.region}/s3/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}"
    key = f"AWS4{bucket.secret_access_key}".encode()
    for part in (day, bucket.region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={bucket.access_key_id}/{scope},"
        f" SignedHeaders={names}, Signature={signature}"
    )
    return {**headers, "authorization": authorization}


_ANSWERS: Mapping[tuple[int, str], tuple[str, str]] = {
    (403, ""): (ACCESS_DENIED, "{title} refuses the credentials (403 {code})"),
    (401, ""): (ACCESS_DENIED, "{title} refuses the credentials (401 {code})"),
    (404, "NoSuchBucket"): (BUCKET_NOT_FOUND, "{title} does not exist"),
    (404, ""): (SNAPSHOT_MISSING, "{title} has no file {name}"),
}
"""Reason and message by status and code of S3's error document. An empty code stands for all."""


def _explain_answer(bucket: S3Bucket, name: str, problem: urllib.error.HTTPError) -> WorkerError:
    text = problem.read(_MAX_ANSWER).decode(errors="replace")
    code = text.partition("<Code>")[2].partition("</Code>")[0][:64]
    otherwise = (
        UNREACHABLE if problem.code >= 500 else REFUSED,
        "{title} answers {status} {code}",
    )
    found = _ANSWERS.get((problem.code, code)) or _ANSWERS.get((problem.code, "")) or otherwise
    reason, message = found
    return WorkerError(
        reason,
        message.format(title=bucket.title, name=name, code=code, status=problem.code),
    )


def _explain_connection(bucket: S3Bucket, problem: Exception) -> WorkerError:
    cause = problem.reason if isinstance(problem, urllib.error.URLError) else problem
    if isinstance(cause, ssl.SSLCertVerificationError):
        text = getattr(cause, "verify_message", "") or str(cause)
        return WorkerError(
            UNTRUSTED,
            f"the certificate of {bucket.endpoint} is not trusted: {text}. Set caSecretName to the"
            " authority of the server",
        )
    return WorkerError(UNREACHABLE, f"{bucket.title} cannot be reached: {cause}")
