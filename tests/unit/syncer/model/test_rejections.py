"""Rejections: the words of Pod Security and of other refusals."""

from __future__ import annotations

from syncer.model import rejections


def test_other_refusals_are_none_of_pod_security():
    assert rejections.parse_pod_security('pods "p" is forbidden: exceeded quota') is None
