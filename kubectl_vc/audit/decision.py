"""Verdicts of probes: passed, failed, absent or unknown. Pure.

Hazard: a closed connection must never pass without a passed positive control in the same IP family.
It may come from a stopped server, a wrong address or a pod without a network.
"""

from enum import StrEnum

from kubectl_vc.audit.probes import Answer, PacketProbe

_NO_RESULTS = {
    Answer.MISSING: "the prober reported no result",
    Answer.CHANGED: (
        "the pod that ran is not the prober that the audit created: a webhook of the tenant or of"
        " the super cluster changed its image, its command or its containers"
    ),
}
"""Answers without a result, and the reasons in words."""


class Verdict(StrEnum):
    """The verdict of one probe at one address."""

    PASSED = "passed"
    FAILED = "failed"
    """A hole, or for an expected answer a connection that the tenant needs and lacks."""
    ABSENT = "absent"
    """The control proves that the cluster has no such server, or the policy allows it."""
    UNKNOWN = "unknown"


def judge_packet(
    probe: PacketProbe,
    seen: Answer,
    *,
    source_proof: Answer | None,
    control: Answer,
    is_optional: bool = False,
) -> tuple[Verdict, str]:
    """Return the verdict of a connection attempt, and its reason in words.

    `source_proof` is the answer of the target that the source must reach, in the same IP family. It
    is None if the source has no address of this family. `control` is the answer of the same address
    to the control place. `is_optional` is whether the server may not listen at the address.
    """
    if probe.expected is Answer.OPEN:
        return _judge_expected(seen, is_optional=is_optional)
    if seen is Answer.OPEN:
        return Verdict.FAILED, "the connection was accepted"
    if problem := _find_problem(seen, source_proof):
        return problem
    if control is Answer.OPEN:
        return Verdict.PASSED, ""
    if (probe.may_be_absent or is_optional) and control not in _NO_RESULTS:
        return Verdict.ABSENT, f"no server answers: {control} from the {probe.control}"
    return Verdict.UNKNOWN, f"the control failed: {control} from the {probe.control}"


def _find_problem(seen: Answer, source_proof: Answer | None) -> tuple[Verdict, str] | None:
    """Return the verdict if a closed connection proves nothing. None if it may."""
    if seen in _NO_RESULTS:
        return Verdict.UNKNOWN, _NO_RESULTS[seen]
    if source_proof is None:
        return Verdict.ABSENT, "the source has no address of this IP family"
    if source_proof is not Answer.OPEN:
        text = f"the source reaches nothing: its own target was {source_proof}"
        return Verdict.UNKNOWN, text
    return None


def judge_object(*, is_hole: bool | None, control: bool) -> tuple[Verdict, str]:
    """Return the verdict of an object, and its reason in words.

    `is_hole` is whether the twin has the forbidden trait, or None without a twin. `control` is
    whether a plain object that was created later has a twin.
    """
    if is_hole:
        return Verdict.FAILED, "the super cluster has it"
    if not control:
        return Verdict.UNKNOWN, "the control failed: no plain pod was synced in time"
    return Verdict.PASSED, "refused" if is_hole is None else "synced without it"


def _judge_expected(seen: Answer, *, is_optional: bool) -> tuple[Verdict, str]:
    if seen is Answer.OPEN:
        return Verdict.PASSED, ""
    if seen in _NO_RESULTS:
        return Verdict.UNKNOWN, _NO_RESULTS[seen]
    if is_optional:
        return Verdict.ABSENT, f"no server answers: {seen}"
    return Verdict.FAILED, "the tenant needs this connection"
