"""Signed requests, and the reasons of refusals."""

import io
import ssl
import urllib.error
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from vcmanager.snapshots import s3_client
from vcmanager.snapshots.file_store import WorkerError
from vcmanager.snapshots.s3_client import S3Bucket, S3Client

BUCKET = S3Bucket(
    endpoint="https://s3.example.com:9000",
    bucket="tenants",
    prefix="a/",
    region="us-east-1",
    access_key_id="AKIAIOSFODNN7EXAMPLE",
    secret_access_key="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
)
NOW = datetime(2013, 5, 24, tzinfo=UTC)


class Opener:
    """In place of urllib: raises or answers."""

    def __init__(self, *answers: Exception | bytes) -> None:
        self.answers = list(answers)
        self.requests: list = []

    def open(self, request, **_):
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        found = io.BytesIO(answer)
        found.headers = {"Content-Length": str(len(answer))}  # type: ignore[attr-defined]
        return found


def client(*answers: Exception | bytes) -> tuple[S3Client, Opener]:
    """Return a client whose requests have these answers."""
    found, opener = S3Client(BUCKET, sleep=lambda _: None), Opener(*answers)
    found._opener = opener  # type: ignore[assignment]
    return found, opener


def refusal(status: int, code: str = "") -> urllib.error.HTTPError:
    """Return an answer with S3's error document."""
    text = f"<Error><Code>{code}</Code></Error>".encode() if code else b""
    return urllib.error.HTTPError("u", status, "m", {}, io.BytesIO(text))  # type: ignore[arg-type]


def test_secrets_are_in_no_text_and_the_host_is_signed():
    assert "wJalr" not in repr(BUCKET)
    headers = s3_client.sign(BUCKET, "GET", "/tenants/a/x.db", "ab", NOW)
    assert headers["host"] == "s3.example.com:9000"
    assert "SignedHeaders=host;x-amz-content-sha256;x-amz-date" in headers["authorization"]
    assert "20130524/us-east-1/s3/aws4_request" in headers["authorization"]
    other = s3_client.sign(BUCKET, "PUT", "/tenants/a/x.db", "ab", NOW)
    assert other["authorization"] != headers["authorization"]


def test_a_session_token_is_signed():
    bucket = S3Bucket(
        endpoint="https://h",
        bucket="b",
        prefix="",
        region="r",
        access_key_id="i",
        secret_access_key="s",
        session_token="t",
    )
    headers = s3_client.sign(bucket, "GET", "/b/x", "ab", NOW)
    assert headers["x-amz-security-token"] == "t"
    assert "x-amz-date;x-amz-security-token" in headers["authorization"]


@pytest.mark.parametrize(
    ("answer", "reason", "attempts"),
    [
        (refusal(403, "SignatureDoesNotMatch"), "S3AccessDenied", 1),
        (refusal(401), "S3AccessDenied", 1),
        (refusal(404, "NoSuchBucket"), "S3BucketNotFound", 1),
        (refusal(404, "NoSuchKey"), "SnapshotFileMissing", 1),
        (refusal(301, "PermanentRedirect"), "S3Refused", 1),
        (refusal(503, "SlowDown"), "S3Unreachable", 3),
        (ConnectionResetError("reset"), "S3Unreachable", 3),
        (urllib.error.URLError(TimeoutError("late")), "S3Unreachable", 3),
        (urllib.error.URLError(ssl.SSLCertVerificationError(1, "self-signed")), "S3Untrusted", 1),
    ],
)
def test_a_refusal_has_a_reason_and_only_an_absent_server_is_asked_again(
    answer: Exception, reason: str, attempts: int, tmp_path: Path
):
    found, opener = client(*[answer] * attempts)
    with pytest.raises(WorkerError) as refused:
        found.download(tmp_path / "x.db")
    assert refused.value.reason == reason
    assert len(opener.requests) == attempts
    assert list(tmp_path.iterdir()) == []


def test_a_cut_download_is_repeated_and_leaves_no_half_file(tmp_path: Path):
    found, opener = client(ConnectionResetError("cut"), b"content")
    found.download(tmp_path / "x.db")
    assert (tmp_path / "x.db").read_bytes() == b"content"
    assert [each.name for each in tmp_path.iterdir()] == ["x.db"]
    assert opener.requests[0].full_url == "https://s3.example.com:9000/tenants/a/x.db"


def test_a_missing_file_is_deleted_already():
    found, _ = client(refusal(404, "NoSuchKey"))
    found.delete("x.db")
    found, _ = client(refusal(403, "AccessDenied"))
    with pytest.raises(WorkerError):
        found.delete("x.db")


def test_a_file_that_s3_does_not_allow_is_refused_before_the_upload(tmp_path, monkeypatch):
    (tmp_path / "x.db").write_bytes(b"12345")
    monkeypatch.setattr(s3_client, "MAX_BYTES", 4)
    found, opener = client()
    with pytest.raises(WorkerError) as refused:
        found.upload(tmp_path / "x.db", "ab")
    assert refused.value.reason == "S3FileTooLarge"
    assert not opener.requests


def test_a_ca_that_is_no_certificate_is_named(tmp_path: Path):
    bucket = S3Bucket(
        endpoint="https://h",
        bucket="b",
        prefix="",
        region="r",
        access_key_id="i",
        secret_access_key="s",
        ca_file=tmp_path / "ca.crt",
    )
    with pytest.raises(WorkerError, match=r"ca\.crt for the bucket b of https://h is missing"):
        S3Client(bucket)


@pytest.mark.parametrize(
    ("endpoint", "listed", "allowed"),
    [
        ("https://s3.example.com", "https://s3.example.com", True),
        ("https://s3.example.com", "https://a.example\nhttps://S3.example.com:443/", True),
        ("https://s3.example.com:9000", "https://a.example, https://s3.example.com:9000", True),
        ("https://s3.example.com:9000", "https://s3.example.com", False),
        ("https://s3.example.com.evil.example", "https://s3.example.com", False),
        ("https://evil.example", "https://s3.example.com", False),
        ("https://s3.example.com", "http://s3.example.com", False),
        ("https://s3.example.com", "s3.example.com", False),
        ("https://s3.example.com", "", False),
        ("https://s3.example.com:99999", "https://s3.example.com:99999", False),
    ],
)
def test_credentials_are_for_the_listed_servers_only(endpoint, listed, allowed, tmp_path):
    assert s3_client.is_allowed(endpoint, listed) is allowed
    for key, value in (("accessKeyID", "a"), ("secretAccessKey", "b"), ("endpoints", listed)):
        (tmp_path / key).write_text(value)
    options = SimpleNamespace(
        s3_credentials=tmp_path,
        s3_credentials_secret="snapshots-s3",
        s3_endpoint=endpoint,
        s3_bucket="b",
        s3_prefix="",
        s3_region="x",
        s3_ca=None,
    )
    if allowed:
        assert s3_client.read_bucket(options).endpoint == endpoint
        return
    with pytest.raises(WorkerError, match="key endpoints of the Secret snapshots-s3") as refused:
        s3_client.read_bucket(options)
    assert refused.value.reason == "S3EndpointNotAllowed"
