"""A profile: who the agent is in a session, what it may use, and how hard it thinks."""

import re
from collections.abc import Collection
from difflib import get_close_matches
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.validation_errors import validation_error

OF_SERVER = "__"  # between an MCP server and the name of its tool
# Offered only where the machine, a setting or a file gives what they need; a profile may name them anywhere.
NOT_EVERYWHERE = frozenset({"code_exec", "skill", "ssh", "web_fetch", "web_search"})
DEFAULT_PROFILE = "assistant"  # of sessions that name none

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Tokens = Annotated[int, Meta(ge=1, le=2**53)]
Prompt = Annotated[str, Meta(max_length=100_000)]  # characters


class ApprovalRule(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What becomes of the tool calls that fit.

    Attributes:
        tool: a glob of names of tools.
        match: regular expressions by argument; each has to be found in it.
    """

    tool: Name
    match: dict[Name, Annotated[str, Meta(max_length=1_000)]] = {}
    then: Literal["allow", "ask", "deny"]


class Profile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of ``config.json``; all of them may be left out.

    What is said of them here stands in ``docs/profiles.md``, too.

    Attributes:
        name: what people read; without it the folder's name
        description: what it is for; agents that may call it as a subagent, or switch to it, read this
        model: a name, or names to fall back along, in order; null is the service's own model
        temperature: how freely the model chooses; null leaves it to the server
        num_ctx: context window in tokens; null is the service's own
        max_iterations: model calls with tools that a turn may make
        max_answer_tokens: of one model call of a turn, thinking and tool calls too; null for what the
            window leaves
        max_tokens_per_turn: of all calls of a turn, its subagents' too; no call is made beyond
        max_tokens_per_session: of all calls of a session, likewise; no message is taken beyond
        system_prompt: what the agent is told; `system.md` where it is empty
        subagent_system_prompt: what it is told as a subagent; `subagent.md` where it is empty, and without that the system prompt
        enabled_tools: names of the tools that the model is offered; null for all
        subagent_tools: the same for subagents; null or empty for `enabled_tools`
        approvals: rules on tool calls; the first one that fits counts
        planning_enabled: make a plan before the work, where the task needs one
        planning_phase2_enabled: have the plan examined before it is made, in a call more
        subagent_planning_enabled: plan as a subagent, too
        think_enabled: let a thinking model think
        iteration_budget_enabled: tell the model how many of its iterations are left
        goal_anchoring_enabled: remind it of the goal and of what is open
        goal_anchoring_interval: iterations between two such reminders
        anti_stall_enabled: tell it where nothing has got on
        anti_stall_threshold: iterations without progress before it is told
        step_validation_enabled: an item of the to-do list is done only with a word on how that was checked
        adaptive_replan_enabled: ask it for another plan where a step has failed
    """

    name: Annotated[str, Meta(max_length=200)] = ""
    description: Annotated[str, Meta(max_length=2_000)] = ""
    model: Name | Annotated[tuple[Name, ...], Meta(min_length=1)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    num_ctx: Annotated[int, Meta(ge=512, le=16_777_216)] | None = None
    max_iterations: Annotated[int, Meta(ge=1, le=1_000)] = 20
    max_answer_tokens: Annotated[int, Meta(ge=16, le=16_777_216)] | None = None
    max_tokens_per_turn: Tokens | None = None
    max_tokens_per_session: Tokens | None = None
    system_prompt: Prompt = ""
    subagent_system_prompt: Prompt = ""
    enabled_tools: tuple[Name, ...] | None = None
    subagent_tools: tuple[Name, ...] | None = None
    approvals: Annotated[tuple[ApprovalRule, ...], Meta(max_length=200)] = ()
    planning_enabled: bool = False
    planning_phase2_enabled: bool = False
    subagent_planning_enabled: bool = False
    think_enabled: bool = True
    iteration_budget_enabled: bool = True
    goal_anchoring_enabled: bool = True
    goal_anchoring_interval: Annotated[int, Meta(ge=1, le=1_000)] = 5
    anti_stall_enabled: bool = True
    anti_stall_threshold: Annotated[int, Meta(ge=2, le=1_000)] = 8
    step_validation_enabled: bool = False
    adaptive_replan_enabled: bool = False

    @property
    def models(self) -> tuple[str, ...]:
        """The models in the order in which they are tried; empty for the service's own."""
        match self.model:
            case None:
                return ()
            case str(model):
                return (model,)
            case models:
                return models

    @property
    def named_tools(self) -> tuple[str, ...]:
        """The tools that it names, for itself and for subagents."""
        return tuple(dict.fromkeys((*(self.enabled_tools or ()), *(self.subagent_tools or ()))))

    def enables(self, tool: str) -> bool:
        """Whether the model is offered a tool."""
        return self.enabled_tools is None or tool in self.enabled_tools

    @property
    def tools_of_subagents(self) -> tuple[str, ...] | None:
        """Names of the tools that a subagent is offered; None for all."""
        return self.subagent_tools or self.enabled_tools


def tools_error(profile: Profile, there: Collection[str]) -> str | None:
    """Which tools a profile names that no tool is, in words; None where all of them are there.

    Args:
        there: the names of tools, also of those that are not offered now; where an MCP server is not
            up, whose tools nobody knows then, its own name.
    """
    missing = [
        repr(name)
        for name in profile.named_tools
        if name not in NOT_EVERYWHERE
        and name not in there
        and name.partition(OF_SERVER)[0] not in there
    ]
    return f"there is no tool {', '.join(missing)}" if missing else None


class ServedProfile(Profile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A profile as an agent or subagent is run with it.

    Attributes:
        id: under which it was asked for.
        whole: all of it, also where a subagent gets less; what the log keeps.
    """

    id: str
    whole: Profile


def served(profile_id: str, profile: Profile) -> ServedProfile:
    """A profile as the agent of a session is run with it."""
    return ServedProfile(**msgspec.structs.asdict(profile), id=profile_id, whole=profile)


def profile_text(profile: Profile) -> str:
    """A profile as the log keeps it: every key, whatever the defaults come to be."""
    return msgspec.json.encode(profile).decode()


def logged_profile(text: str) -> Profile:
    """The profile of a text that the log keeps.

    Raises:
        BadInput: it has a key or a value that this version does not know.
    """
    return parse_profile(text.encode())


def parse_profile(config: bytes, *, system: str = "", subagent: str = "") -> Profile:
    """The profile that a ``config.json`` describes.

    Args:
        system: the system prompt where ``config`` has none.
        subagent: the system prompt of subagents where ``config`` has none.

    Raises:
        BadInput: names the key that is unknown or has the wrong type.
    """
    try:
        profile = msgspec.json.decode(config, type=Profile)
    except msgspec.ValidationError as error:
        raise _with_meant(validation_error(error, whole="config.json")) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput("config.json", f"is not JSON: {error}") from error
    _check_expressions(profile.approvals)
    return msgspec.structs.replace(
        profile,
        system_prompt=profile.system_prompt or system,
        subagent_system_prompt=profile.subagent_system_prompt or subagent,
    )


def _with_meant(bad: BadInput) -> BadInput:
    """What is wrong, and of a key that is not known the one that was perhaps meant."""
    close = get_close_matches(bad.field, Profile.__struct_fields__, n=1)
    if bad.cause != "is not known" or not close:
        return bad
    return BadInput(bad.field, f"{bad.cause}; did you mean {close[0]}?")


def _check_expressions(rules: tuple[ApprovalRule, ...]) -> None:
    for number, rule in enumerate(rules):
        for argument, expression in rule.match.items():
            try:
                re.compile(expression)
            except (re.error, RecursionError, OverflowError) as error:
                raise BadInput(
                    f"approvals[{number}].match.{argument}", f"is no regular expression: {error}"
                ) from error
