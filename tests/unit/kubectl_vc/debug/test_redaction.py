"""Redaction of debug bundles: secrets in every place of objects and texts."""

import json

import pytest

from kubectl_vc.debug.redaction import REDACTED, redact_object, redact_text

PLANTED = "hunter2plantedvalue"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJlLXBsYW50ZWQ"
PEM = f"-----BEGIN EC PRIVATE KEY-----\n{PLANTED}\nAAAA\n-----END EC PRIVATE KEY-----"


def container(**fields):
    """Return a pod with one container."""
    return {"kind": "Pod", "spec": {"containers": [{"name": "c", **fields}]}}


OBJECTS = {
    "Secret": {"kind": "Secret", "data": {"a": PLANTED}, "stringData": {"b": PLANTED}},
    "ConfigMap password": {"kind": "ConfigMap", "data": {"db-password": PLANTED}},
    "ConfigMap key file": {"kind": "ConfigMap", "data": {"tls.key": PLANTED}},
    "ConfigMap kubeconfig": {"kind": "ConfigMap", "data": {"kubeconfig": PLANTED}},
    "ConfigMap file": {"kind": "ConfigMap", "data": {"app.yaml": f"a: b\ntoken: {PLANTED}\n"}},
    "ConfigMap JSON": {"kind": "ConfigMap", "data": {"app.json": f'{{"token": "{PLANTED}"}}'}},
    "ConfigMap PEM": {"kind": "ConfigMap", "data": {"bundle": PEM}},
    "ConfigMap binary": {"kind": "ConfigMap", "binaryData": {"blob": PLANTED}},
    "env": container(env=[{"name": "HARMLESS", "value": PLANTED}]),
    "init env": {"spec": {"initContainers": [{"env": [{"name": "A", "value": PLANTED}]}]}},
    "template env": {"spec": {"template": container(env=[{"name": "A", "value": PLANTED}])}},
    "header": container(
        livenessProbe={"httpGet": {"httpHeaders": [{"name": "X", "value": PLANTED}]}}
    ),
    "argument": container(args=[f"--token={PLANTED}"]),
    "argument in two": container(args=["--client-secret", PLANTED]),
    "command": container(command=["sh", "-c", f"curl -H 'Authorization: Bearer {PLANTED}' x"]),
    "argument URL": container(args=[f"--proxy=http://user:{PLANTED}@proxy:80"]),
    "annotation": {"metadata": {"annotations": {"example.com/api-token": PLANTED}}},
    "annotation text": {"metadata": {"annotations": {"note": f"password={PLANTED}"}}},
    "last applied": {
        "metadata": {
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": f'{{"x":"{PLANTED}"}}'
            }
        }
    },
    "managed fields": {"metadata": {"managedFields": [{"fieldsV1": {PLANTED: {}}}]}},
    "extraArgs": {"spec": {"extraArgs": {"apiServer": {"oidc-client-secret": PLANTED}}}},
    "condition": {"status": {"conditions": [{"message": f"refused: token={PLANTED}"}]}},
    "Event": {"kind": "Event", "message": f"pull https://u:{PLANTED}@registry/x failed"},
    "nested": {"spec": {"a": [{"b": {"password": PLANTED}}]}},
    "JWT": {"status": {"message": f"got {JWT}"}},
}

TEXTS = [
    PEM,
    f"{PEM.partition('-----END')[0]}",
    JWT,
    f"Authorization: Bearer {PLANTED}",
    f"authorization=Basic {PLANTED}",
    f'{{"client_secret": "{PLANTED}"}}',
    f"--password={PLANTED} next",
    f"PASSWORD: '{PLANTED}'",
    f"DB_PASSWD={PLANTED}",
    f"postgres://app:{PLANTED}@db/x",
    f"client-key-data: {PLANTED}",
]


@pytest.mark.parametrize("name", OBJECTS)
def test_planted_secret_is_removed_from_objects(name):
    """SEC-251."""
    shown = json.dumps(redact_object(OBJECTS[name]))
    assert PLANTED not in shown
    assert "c2lnbmF0dXJlLXBsYW50ZWQ" not in shown


@pytest.mark.parametrize("text", TEXTS)
def test_planted_secret_is_removed_from_texts(text):
    shown = redact_text(f"before\n{text}")
    assert PLANTED not in shown
    assert "c2lnbmF0dXJlLXBsYW50ZWQ" not in shown
    assert REDACTED in shown
    assert shown.startswith("before\n")


def test_what_is_no_secret_stays():
    body = {
        "kind": "ConfigMap",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "data": {"color": "blue"},
        "spec": {
            "secretName": "web-tls",
            "automountServiceAccountToken": False,
            "containers": [
                {
                    "image": "registry/etcd@sha256:0123456789abcdef",
                    "args": ["--data-dir=/var/lib/etcd", "-v", "2"],
                    "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}],
                }
            ],
        },
    }
    assert redact_object(body) == body


def test_keys_of_a_secret_stay():
    found = redact_object({"kind": "Secret", "data": {"ca.crt": "x"}})
    assert found == {"kind": "Secret", "data": {"ca.crt": REDACTED}}


@pytest.mark.parametrize(
    "text", ["2026-11-28T12:00:00Z etcd started", '{"level":"info","tenant":"web"}', "etcd_up 1"]
)
def test_plain_log_lines_stay(text):
    assert redact_text(text) == text
