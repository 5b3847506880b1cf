"""Storage of a rotation in the Secret of its authority.

Owns data keys and the annotation. Hazard: keys and stage change in one write. A crash between two
writes would leave an authority in no stage.
"""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from tenancy import wellknown
from vcmanager.pki import bundles, checks, inventory
from vcmanager.pki.authority import KeyPair
from vcmanager.pki.rotation import (
    ISSUE_NEW,
    SERVICE_ACCOUNT,
    STABLE,
    TRUST_BOTH,
    AuthorityKeys,
    RotatedName,
    RotationRequest,
    RotationState,
    Stage,
    join_pem,
)

ROTATED_SECRETS: Mapping[RotatedName, str] = {
    inventory.SERVING: inventory.AUTHORITIES[inventory.SERVING],
    inventory.CLIENT: inventory.AUTHORITIES[inventory.CLIENT],
    inventory.ETCD: inventory.AUTHORITIES[inventory.ETCD],
    inventory.FRONT_PROXY: inventory.AUTHORITIES[inventory.FRONT_PROXY],
    SERVICE_ACCOUNT: inventory.SERVICE_ACCOUNT_KEYS,
}
"""Each authority of one tenant and its Secret. The agents' authority is the manager's own."""

OTHER_CERTIFICATE_KEY = "other.crt"
OTHER_PRIVATE_KEY_KEY = "other.key"


_MAX_CLOCK_LEAD = timedelta(minutes=5)
"""Time by which the clock of a requester may be ahead. A later request is ignored."""
_STAGES: Mapping[str, Stage] = {each: each for each in (STABLE, TRUST_BOTH, ISSUE_NEW)}


class InvalidRotationError(ValueError):
    """A Secret has no usable rotation. The message has the reason."""


def read_rotation(
    name: RotatedName, secret: Mapping[str, Any]
) -> tuple[RotationState, AuthorityKeys]:
    """Return stage and keys of an authority. Raises InvalidRotationError."""
    state = _read_state(secret)
    certificate = bundles.read_data(secret, bundles.CERTIFICATE_KEY)
    key = bundles.read_data(secret, bundles.PRIVATE_KEY_KEY)
    if state.stage == STABLE:
        return state, AuthorityKeys(current=KeyPair(certificate, key))
    other = KeyPair(
        bundles.read_data(secret, OTHER_CERTIFICATE_KEY),
        bundles.read_data(secret, OTHER_PRIVATE_KEY_KEY),
    )
    fault = find_other_fault(name, state, other)
    if fault is not None:
        raise InvalidRotationError(f"{OTHER_CERTIFICATE_KEY}: {fault}")
    if name == SERVICE_ACCOUNT:
        # The API server verifies tokens with each key of the file.
        certificate = certificate.removesuffix(other.certificate)
    return state, AuthorityKeys(current=KeyPair(certificate, key), other=other)


def find_other_fault(
    name: RotatedName, state: RotationState, other: KeyPair
) -> checks.CertificateFault | None:
    """Return why the second authority cannot be used, or None."""
    if not other.certificate:
        return "missing"
    if state.stage == ISSUE_NEW:
        return None if checks.is_readable(other.certificate) else "unreadable"
    if name == SERVICE_ACCOUNT:
        return checks.find_keys_fault(other)
    return checks.find_authority_fault(other)


def build_patch(
    name: RotatedName, secret: Mapping[str, Any], state: RotationState, keys: AuthorityKeys
) -> dict[str, Any]:
    """Return the merge patch that stores stage and keys, for exactly this version of the Secret."""
    certificate, other = keys.current.certificate, keys.other
    if name == SERVICE_ACCOUNT and other is not None:
        certificate = join_pem(certificate, other.certificate)
    data: dict[str, str | None] = {
        bundles.CERTIFICATE_KEY: bundles.encode_base64(certificate),
        bundles.PRIVATE_KEY_KEY: bundles.encode_base64(keys.current.key),
        OTHER_CERTIFICATE_KEY: bundles.encode_base64(other.certificate) if other else None,
        OTHER_PRIVATE_KEY_KEY: bundles.encode_base64(other.key) if other and other.key else None,
    }
    return {**build_state_patch(secret, state), "data": data}


def build_state_patch(secret: Mapping[str, Any], state: RotationState) -> dict[str, Any]:
    """Return the merge patch that stores the stage alone."""
    metadata = secret["metadata"]
    document = {
        "stage": state.stage,
        "settled": _format(state.settled),
        "requested": _format(state.requested),
        "signedUntil": _format(state.signed_until),
        "cleared": _format(state.cleared),
        "held": state.held,
    }
    return {
        "metadata": {
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "annotations": {wellknown.AUTHORITY_ROTATION: json.dumps(document)},
        }
    }


def parse_request(body: Mapping[str, Any], name: RotatedName, now: datetime) -> RotationRequest:
    """Return the requests for one authority in the annotations of an object.

    Invalid times and times in the future count as no request.
    """
    return RotationRequest(
        start=parse_time(body, f"{wellknown.ROTATE_PREFIX}{name}", now),
        force_drop=parse_time(body, f"{wellknown.FORCE_DROP_PREFIX}{name}", now),
    )


def parse_time(body: Mapping[str, Any], annotation: str, now: datetime) -> datetime | None:
    """Return the time in an annotation, or None if it is invalid or in the future."""
    annotations = body["metadata"].get("annotations") or {}
    try:
        found = datetime.fromisoformat(str(annotations.get(annotation, "")))
    except ValueError:
        return None
    return None if found.tzinfo is None or found > now + _MAX_CLOCK_LEAD else found


def _read_state(secret: Mapping[str, Any]) -> RotationState:
    text = (secret["metadata"].get("annotations") or {}).get(wellknown.AUTHORITY_ROTATION)
    if not text:
        return RotationState()
    try:
        found = json.loads(text)
        return RotationState(
            stage=_STAGES[found["stage"]],
            settled=_parse(found["settled"]),
            requested=_parse(found["requested"]),
            # An older version of vc-manager does not write these.
            signed_until=_parse(found.get("signedUntil", "")),
            cleared=_parse(found.get("cleared", "")),
            held=str(found.get("held", "")),
        )
    except (ValueError, TypeError, KeyError) as problem:
        raise InvalidRotationError(
            f"annotation {wellknown.AUTHORITY_ROTATION}: {problem}"
        ) from None


def _format(time: datetime | None) -> str:
    return time.isoformat() if time is not None else ""


def _parse(text: str) -> datetime | None:
    if not text:
        return None
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text} has no time zone")
    return found
