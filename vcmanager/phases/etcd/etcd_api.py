"""Client of a tenant's etcd: its members, their answers, and the changes of members.

Owns the requests to etcd's JSON gateway (https://etcd.io/docs/latest/dev-guide/api_grpc_gateway/).
IDs and sizes are 64-bit integers, which the gateway writes as strings, and fields with the value
zero are left out. Must not decide anything.

Hazard: a read of the member list must go through a quorum. A member that is cut off would list
members that were removed.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import orjson

from kubeio import errors
from kubeio.api.client import Client
from kubeio.http.rest import ClientOptions
from kubeio.http.transport_protocol import Fence
from vcmanager.phases.etcd.membership import StoreStep
from vcmanager.runtime.etcd_stores import DesiredStore, EtcdObservation, Member, MemberStatus

_DEADLINE_SECONDS = 4.0
_DEFRAGMENT_SECONDS = 120.0
"""Deadline in seconds of a defragmentation. It takes up to 10 s for each GiB on slow disks."""
_MAX_RESPONSE_BYTES = 256 * 1024
_NO_SPACE = "NOSPACE"


class EtcdApi:
    """Connections to the members of one etcd. Use as `async with`."""

    def __init__(self, desired: DesiredStore, *, fence: Fence | None = None) -> None:
        """Open nothing yet."""
        self._peer_urls = desired.peer_urls
        options = ClientOptions(
            user_agent="vc-manager",
            connections=2,
            deadline=_DEADLINE_SECONDS,
            fence=fence,
            max_response_bytes=_MAX_RESPONSE_BYTES,
        )
        self._clients = {
            ordinal: Client(endpoint, options) for ordinal, endpoint in desired.endpoints.items()
        }
        self._ordinals: dict[str, int] = {}
        """Ordinal of each member that answered, by member ID."""
        self._leader = ""
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Prepare the clients. Connections are opened by the first request."""
        for client in self._clients.values():
            await self._stack.enter_async_context(client)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close all connections."""
        await self._stack.aclose()

    async def observe(self) -> EtcdObservation:
        """Return what the members answer. A member that does not answer is left out."""
        answers = await asyncio.gather(*map(self._fetch_status, self._clients))
        statuses: dict[str, MemberStatus] = {}
        voters: list[int] = []
        for ordinal, answer in zip(self._clients, answers, strict=True):
            if answer is None:
                continue
            identity = str((answer.get("header") or {}).get("member_id", ""))
            statuses[identity] = _parse_status(answer, identity)
            self._ordinals[identity] = ordinal
            if statuses[identity].is_leader:
                self._leader = identity
            if statuses[identity].has_leader and not answer.get("isLearner"):
                voters.append(ordinal)
        for ordinal in voters:
            try:
                listed, alarms = await asyncio.gather(
                    self._call(ordinal, "cluster/member/list", linearizable=True),
                    self._call(ordinal, "maintenance/alarm", action="GET"),
                )
            except errors.KubeError:
                continue
            return EtcdObservation(
                members=tuple(self._parse_member(each) for each in listed.get("members") or ()),
                statuses=statuses,
                alarmed=frozenset(
                    str(each.get("memberID"))
                    for each in alarms.get("alarms") or ()
                    if each.get("alarm") == _NO_SPACE
                ),
            )
        return EtcdObservation(statuses=statuses)

    async def carry_out(self, step: StoreStep) -> None:
        """Carry out a step of the last observation. Raises KubeError if etcd refuses it."""
        member = step.member.id if step.member is not None else ""
        voter = self._choose_voter()
        match step.action:
            case "add":
                url = self._peer_urls[step.ordinal or 0]
                await self._call(voter, "cluster/member/add", peerURLs=[url], isLearner=True)
            case "promote":
                await self._call(voter, "cluster/member/promote", ID=member)
            case "remove":
                await self._call(voter, "cluster/member/remove", ID=member)
            case "transfer":
                await self._call(voter, "maintenance/transfer-leadership", targetID=member)
            case "defragment":
                await self._call(
                    self._ordinals[member],
                    "maintenance/defragment",
                    deadline=_DEFRAGMENT_SECONDS,
                )
            case "disarm":
                await self._call(
                    voter,
                    "maintenance/alarm",
                    action="DEACTIVATE",
                    memberID=member,
                    alarm=_NO_SPACE,
                )

    def _choose_voter(self) -> int:
        """Return the ordinal of the leader, which forwards nothing, or of any member."""
        return self._ordinals.get(self._leader, next(iter(self._ordinals.values()), 0))

    async def _fetch_status(self, ordinal: int) -> Mapping[str, Any] | None:
        try:
            return await self._call(ordinal, "maintenance/status")
        except errors.KubeError:
            return None

    async def _call(
        self, ordinal: int, path: str, *, deadline: float | None = None, **body: Any
    ) -> Mapping[str, Any]:
        answer = await self._clients[ordinal].raw(
            "POST", f"/v3/{path}", body=body, deadline=deadline
        )
        found = orjson.loads(answer or b"{}")
        return found if isinstance(found, dict) else {}

    def _parse_member(self, listed: Mapping[str, Any]) -> Member:
        url = str((listed.get("peerURLs") or [""])[0])
        return Member(
            id=str(listed.get("ID", "")),
            peer_url=url,
            ordinal=self._peer_urls.index(url) if url in self._peer_urls else None,
            is_learner=bool(listed.get("isLearner")),
            is_started=bool(listed.get("name")),
        )


def _parse_status(answer: Mapping[str, Any], identity: str) -> MemberStatus:
    leader = str(answer.get("leader", "0"))
    return MemberStatus(
        has_leader=leader not in ("", "0"),
        is_leader=leader == identity,
        size=int(answer.get("dbSize", 0)),
        used=int(answer.get("dbSizeInUse", 0)),
        limit=int(answer.get("dbSizeQuota", 0)),
    )
