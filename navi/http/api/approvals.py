"""Routes of approvals: what waits for a person, and the decision."""

from litestar import Response, get, post
from msgspec import Struct

from navi.application.reading.list_approvals import WaitingApproval, waiting_approvals
from navi.domain.vocabulary.ids import CallId
from navi.http.requests.access import Caller, OwnSession
from navi.http.requests.bodies import answer, read_json
from navi.http.requests.decisions import DecisionAnswer, DecisionBody
from navi.http.requests.errors import Edge
from navi.http.requests.operation import operation
from navi.http.requests.services import Given, PathText
from navi.http.requests.validation import validated_decision


class ApprovalList(Struct, frozen=True, kw_only=True):
    """What waits for a decision, oldest first."""

    approvals: tuple[WaitingApproval, ...]


@get("/approvals", opt=operation(access="read", answers={200: ApprovalList}))
async def get_approvals(services: Given, principal: Caller) -> Response[bytes]:
    """All tool calls that wait for a person."""
    waiting = await waiting_approvals(
        services.event_log, services.read_models, owner=principal.user_id
    )
    return answer(ApprovalList(approvals=waiting))


@post(
    "/sessions/{session_id:str}/approvals/{call_id:str}",
    opt=operation(
        access="chat",
        body=DecisionBody,
        answers={200: DecisionAnswer},
        in_path={"call_id": {"type": "string", "pattern": "^call_[0-9a-f]{12}$"}},
        errors=(400, 404, 408, 409, 413, 415),
    ),
)
async def decide_approval(
    request: Edge, own: OwnSession, call_id: PathText, services: Given, principal: Caller
) -> Response[bytes]:
    """Decide on a tool call that waits, on any node."""
    body = await read_json(request, DecisionBody)
    decision = validated_decision(
        call_id=CallId(call_id),
        decision=body.decision,
        scope=body.scope,
        arguments=body.arguments,
        note=body.note,
        by=principal.user_id,
    )
    return answer(DecisionAnswer(seq=await services.decide_approval(own, decision)))
