"""What every model call of an actor begins with: the system message, the tools, the context.

A model server keeps what it has read and reads on from where the next request goes another way. So all
calls of a session, whatever they are for, begin alike, and what is special to one stands behind the
context as its tail. Tools stand at the top in most chat templates: they are offered in every call, and
calls for which nobody asked are passed over.
"""

from navi.application.agent.model_calls.question import Question
from navi.application.session.record import Record
from navi.domain.agent.profile import Profile, ServedProfile
from navi.domain.context.prompt import PERSONA, ToolSchema, prompt_messages, system_text
from navi.domain.reading.fold import Fold
from navi.domain.session.session import FollowUp
from navi.domain.vocabulary.ids import SubagentId, TurnId
from navi.ports.tools import ToolBox
from navi.projections.context import ContextState


def compose_request(
    record: Record,
    context: Fold[ContextState],
    profile: ServedProfile,
    tools: ToolBox,
    *,
    subagent_id: SubagentId | None = None,
    turn_id: TurnId | None = None,
    follow_up: FollowUp | None = None,
) -> Question:
    """A question of purpose ``turn``, for the caller to say what else it is.

    Args:
        context: the actor's, at the record's ``seq``.
        turn_id: the turn that the call is made in; None beside the turns.
        follow_up: what the call is made for, after a turn: the context is sent up to that turn's end,
            also where the next one is open already.
    """
    turn = record.session.turn
    recalled = ""
    if turn is not None and turn_id == turn.id and subagent_id is None:
        # As a navi of before has told it, in a turn that this one has taken over.
        recalled = "" if turn.recalled_beside else turn.recalled or ""
    given = record.session.instructions.system if subagent_id is None else None
    system = system_text(
        PERSONA, profile.system_prompt, recalled, "" if given is None else given.text
    )
    rows = context.rows.visible()
    seq, sent = record.seq, None
    if subagent_id is not None:
        # What its siblings do meanwhile is not in its context, and comes in any order.
        seq = max((abs(key) for key, _ in rows), default=seq)
    if follow_up is not None:
        rows = tuple((key, row) for key, row in rows if key <= follow_up.seq)
        # From here on only a compression changes what stands before the turn's end.
        seq = max((follow_up.seq, *(c.seq for c in record.session.compressions[-1:])))
        sent = len(rows)
    return Question(
        purpose="turn",
        iteration=0,
        attempts=(),
        models=profile.models,
        messages=prompt_messages(system, (row for _, row in rows), turn_id=turn_id),
        tools=() if record.session.plain else offered_tools(tools, profile),
        temperature=profile.temperature,
        num_ctx=profile.num_ctx,
        think=profile.think_enabled,
        context_seq=seq,
        context_messages=sent,
        max_tokens=profile.max_answer_tokens,
        made_by=profile,
        results={row.call_id: key for key, row in rows if row.role == "tool" and row.call_id},
    )


def offered_tools(tools: ToolBox, profile: Profile) -> tuple[ToolSchema, ...]:
    """The tools that a profile enables, as sent to the model."""
    descriptions = (tool.description for tool in tools.all())
    return tuple(
        ToolSchema(name=d.name, description=d.description, parameters=d.parameters)
        for d in descriptions
        if profile.enables(d.name)
    )
