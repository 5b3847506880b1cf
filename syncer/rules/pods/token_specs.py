"""Tokens of pods: the required tokens, the names of their Secrets and the times of renewal.

Pure. A pod's token is a token of the *tenant's* API. All pods of an account share one token. A
token for another audience belongs to one pod. The Secret's annotations have all data for a renewal,
so the syncer keeps no state.

Hazard: never log or compare the token itself. Otherwise a credential leaks.
"""

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kubeio import Object
from syncer.model import builtin_policy
from syncer.model.references import iterate_token_sources
from syncer.model.rejections import RejectionProblem
from tenancy import names, ownership, wellknown
from tenancy.ownership import Tenant

DATA_KEY = "token"
MIN_RENEWAL_SECONDS = 60.0
"""Minimum interval between requests for a token. It applies to a tenant that issues shorter tokens
than requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSpec:
    """Parameters of one token of an account."""

    namespace: str
    account: str
    account_uid: str
    audience: str = ""
    """Empty for the tenant's own API."""
    seconds: int = builtin_policy.TOKEN_SECONDS
    pod: str = ""
    pod_uid: str = ""
    """UID of the pod that the token is bound to. Empty for the shared token."""

    @property
    def secret_name(self) -> str:
        """Return the name of the super Secret that contains the token."""
        return names.build_token_secret_name(
            self.account_uid, self.audience, self.seconds, self.pod_uid
        )

    def build_request(self) -> Object:
        """Return the TokenRequest for the tenant's API."""
        spec: Object = {"expirationSeconds": self.seconds}
        if self.audience:
            spec["audiences"] = [self.audience]
        if self.pod:
            spec["boundObjectRef"] = {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": self.pod,
                "uid": self.pod_uid,
            }
        return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}


def list_token_specs(pod: Mapping[str, Any], account_uid: str) -> dict[tuple[str, int], TokenSpec]:
    """Return the tokens that a pod's volumes request, by the written audience and lifetime."""
    metadata, spec = pod["metadata"], pod["spec"]
    account = spec.get("serviceAccountName") or "default"
    found: dict[tuple[str, int], TokenSpec] = {}
    for source in iterate_token_sources(spec):
        written = parse_source(source)
        audience, seconds = written
        if not audience:
            found[written] = TokenSpec(
                namespace=metadata["namespace"], account=account, account_uid=account_uid
            )
            continue
        found[written] = TokenSpec(
            namespace=metadata["namespace"],
            account=account,
            account_uid=account_uid,
            audience=audience,
            seconds=min(
                max(seconds, builtin_policy.MIN_TOKEN_SECONDS), builtin_policy.MAX_TOKEN_SECONDS
            ),
            pod=metadata["name"],
            pod_uid=metadata["uid"],
        )
    return found


def parse_source(source: Mapping[str, Any]) -> tuple[str, int]:
    """Return the audience and the lifetime that a serviceAccountToken source requests."""
    return str(source.get("audience") or ""), int(source.get("expirationSeconds") or 3600)


def find_problems(spec: Mapping[str, Any]) -> Iterator[RejectionProblem]:
    """Yield the problems of the tokens that a PodSpec, walked by its table, requests."""
    for number, volume in enumerate(spec.get("volumes") or ()):
        for index, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            audience = (source.get("serviceAccountToken") or {}).get("audience") or ""
            size = len(str(audience).encode(errors="replace"))
            if size > builtin_policy.MAX_AUDIENCE:
                path = f"spec.volumes[{number}].projected.sources[{index}].serviceAccountToken"
                text = f"has {size} bytes. Use one of at most {builtin_policy.MAX_AUDIENCE}"
                yield RejectionProblem("token-audience", f"{path}.audience", text)


def build_secret(
    token: TokenSpec,
    tenant: Tenant,
    super_namespace: str,
    text: str,
    *,
    expires: datetime,
    now: datetime,
) -> Object:
    """Return the super Secret that contains a token."""
    # Half of the issued lifetime, which the tenant determines.
    life = min((expires - now).total_seconds(), float(token.seconds))
    renewal = now + timedelta(seconds=max(life / 2, MIN_RENEWAL_SECONDS))
    record = {
        **ownership.build_owner_annotations(tenant, token.namespace, token.account_uid),
        wellknown.ACCOUNT: token.account,
        wellknown.EXPIRES: expires.isoformat(),
        wellknown.TOKEN_AUDIENCE: token.audience,
        wellknown.TOKEN_SECONDS: str(token.seconds),
        wellknown.TOKEN_RENEW: renewal.isoformat(),
    }
    if token.pod:
        record[wellknown.TOKEN_POD] = f"{token.pod}/{token.pod_uid}"
    data = {DATA_KEY: base64.b64encode(text.encode()).decode()}
    record[wellknown.LAST_WRITTEN_DIGEST] = _compute_digest(data)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": token.secret_name,
            "namespace": super_namespace,
            "labels": ownership.build_owner_labels(tenant, token.namespace),
            "annotations": record,
        },
        "type": "Opaque",
        "data": data,
    }


def is_secret_unchanged(secret: Mapping[str, Any]) -> bool:
    """Return whether a token Secret still has the data that was written."""
    written = (secret["metadata"].get("annotations") or {}).get(wellknown.LAST_WRITTEN_DIGEST)
    return bool(written == _compute_digest(secret.get("data") or {}))


def _compute_digest(data: Mapping[str, str]) -> str:
    """Return a digest that reveals a change of a Secret's data, but not the data."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def parse_secret(annotations: Mapping[str, str], registration: str = "") -> TokenSpec | None:
    """Return the token that a Secret's annotations describe. None if the Secret is foreign."""
    seconds = annotations.get(wellknown.TOKEN_SECONDS, "")
    owner = ownership.read_owner({"annotations": annotations}, registration)
    if owner is None or not seconds.isdigit() or wellknown.ACCOUNT not in annotations:
        return None
    pod, _, pod_uid = annotations.get(wellknown.TOKEN_POD, "").partition("/")
    return TokenSpec(
        namespace=owner.namespace,
        account=annotations[wellknown.ACCOUNT],
        account_uid=owner.uid,
        audience=annotations.get(wellknown.TOKEN_AUDIENCE, ""),
        seconds=int(seconds),
        pod=pod,
        pod_uid=pod_uid,
    )


def compute_seconds_to_renewal(annotations: Mapping[str, str], now: datetime) -> float:
    """Return the seconds until the next token is requested. 0 or less means now."""
    try:
        return (datetime.fromisoformat(annotations[wellknown.TOKEN_RENEW]) - now).total_seconds()
    except (KeyError, ValueError, TypeError):
        return 0.0
