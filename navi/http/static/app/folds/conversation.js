// The conversation as people see it: a fold of a session's events into turns, and of turns into items.
//
// States, turns and items are never changed: what an event touches is replaced, all else stays the same
// object, so that a view can tell by identity what to draw again.
//
// A turn: {key, turnId, status: "running" | "completed" | "stopped" | "failed" | "between", startedAt,
// endedAt, items, now, ...}. What happens between turns stands in turns of status "between".
//
// Items, by `kind`:
//   user      {seq, messageId, content, files, at, mode, state: "waiting" | "delivered" | "withdrawn", deliveredSeq}
//   answer    {seq, callId, profileId, at, text, thinking, thinkingFrom, thinkingUntil, isOpen, isPartial, error}
//   tool      {callId, name, arguments, state, output, isTruncated, from, until, durationMs, approval}
//   subagent  {callId, subagentId, profileId, task, result, state, items, ...}: a tool that became one
//   plan      {seq, phase, text, steps, complexity, milestones, todo}: `phase` while it is made, else null;
//             `todo` is the session's list while the plan is its last one, null for a subagent's
//   summary   {seq, summary, keptFromSeq, tokensBefore, tokensAfter, trigger, isUndone}
//   taken_in  {seq, messages}
//   note      {seq, note, ...}: a line about something that happened (profile, resumed, memory, ...)
// `waiting` are messages that no turn has yet, `line` the place of the first of them: {place, since}, or null.
// An item has a `key` that is unique in the session.

const TOOL_STATES = { ok: "done", error: "failed", denied: "denied", skipped: "skipped", unknown: "unknown" };
const LIVE_OUTPUT = 64 * 1024; // characters of a running tool's output that are kept for looking at

export function initial() {
  return { seq: 0, profileId: null, turns: [], waiting: [], todo: [], line: null };
}

export function apply(state, event) {
  const step = STEPS[event.type];
  const before = step && event.type !== "turn_started" ? withTurn(state, event) : state;
  const after = step ? step(before, event, event.data ?? {}) : before;
  return after === state ? { ...state, seq: event.seq } : Object.assign(after, { seq: event.seq });
}

export const conversation = { initial, apply };

/** The turn that runs, or null. */
export function runningTurn(state) {
  const last = state.turns.findLast((turn) => turn.status !== "between");
  return last?.status === "running" ? last : null;
}

/** The tools that wait for a person, in the order of their asking. */
export function awaitingApproval(items) {
  return items.flatMap((item) => [
    ...(item.approval && !item.approval.decision && item.state === "waiting" ? [item] : []),
    ...(item.items ? awaitingApproval(item.items) : []),
  ]);
}

const STEPS = {
  session_created(state, event, data) {
    const after = { ...state, profileId: data.profile_id };
    return data.forked_from ? add(after, event, note(event, "forked", { origin: data.forked_from })) : after;
  },
  profile_switched(state, event, data) {
    const after = event.subagent_id ? { ...state } : { ...state, profileId: data.to_profile };
    return add(after, event, note(event, "profile", { to: data.to_profile, reason: data.reason }));
  },
  conversation_taken_in(state, event, data) {
    if (!data.messages?.length) return state;
    return add(state, event, { kind: "taken_in", key: `taken-in-${event.seq}`, seq: event.seq, messages: data.messages });
  },

  user_message_received(state, event, data) {
    const item = {
      kind: "user",
      key: `message-${event.seq}`,
      seq: event.seq,
      messageId: data.message_id,
      content: data.content,
      files: data.files ?? [],
      at: event.at,
      mode: data.mode,
      state: "waiting",
    };
    return { ...state, waiting: [...state.waiting, item] };
  },
  message_delivered(state, event, data) {
    const [found, waiting] = taken(state.waiting, data.message_seq);
    const item = { ...found, state: "delivered", deliveredSeq: event.seq };
    return found ? add({ ...state, waiting }, event, item) : state;
  },
  message_withdrawn(state, event, data) {
    const [found, waiting] = taken(state.waiting, data.message_seq);
    const line = waiting.length ? state.line : null;
    return found ? add({ ...state, waiting, line }, event, { ...found, state: "withdrawn" }) : state;
  },

  turn_started(state, event, data) {
    return { ...state, line: null, turns: [...state.turns, { ...newTurn(event), isPlanned: Boolean(data.planning) }] };
  },
  turn_resumed(state, event, data) {
    return changeTurn(add(state, event, note(event, "resumed", { reason: data.reason })), event, (turn) => ({
      ...turn,
      status: "running",
      now: { what: "starting", since: event.at },
    }));
  },
  stop_requested(state, event) {
    return changeTurn(state, event, (turn) => ({ ...turn, now: { what: "stopping", since: event.at } }));
  },
  turn_completed: (state, event, data) =>
    end(state, event, "completed", {
      usage: data.usage,
      iterations: data.iterations,
      limitReached: data.limit_reached,
      isTruncated: data.truncated,
    }),
  turn_stopped: (state, event, data) => end(state, event, "stopped", { by: data.by }),
  turn_failed: (state, event, data) => end(state, event, "failed", { failure: data }),

  planning_phase_completed(state, event, data) {
    // A plan that is not needed, or could not be made, leaves nothing; one that is ready comes with this event.
    const isOver = data.phase === 3 ? data.verdict !== "plan" : data.verdict === "direct" || data.verdict === "failed";
    const after = isOver
      ? changeItems(state, event, (items) => items.filter((item) => item.kind !== "plan" || item.phase === null))
      : changePlan(state, event, (item) => ({ ...item, phase: Math.min(3, data.phase + 1) }));
    return isOver ? during(after, event, { what: "starting" }) : after;
  },
  plan_ready(state, event, data) {
    const plan = {
      seq: event.seq,
      phase: null,
      text: data.plan,
      steps: data.steps ?? [],
      complexity: data.complexity,
      milestones: data.milestones ?? [],
      todo: null,
    };
    const after = changePlan(state, event, (item) => ({ ...item, ...plan }));
    return during(after === state ? add(state, event, { ...newPlan(event), ...plan }) : after, event, { what: "starting" });
  },
  todo_updated(state, event, data) {
    const after = { ...state, todo: data.items };
    const last = state.turns.flatMap((turn) => turn.items).findLast((item) => item.kind === "plan" && item.phase === null);
    const here = state.turns[turnIndex(state, event)]?.items.includes(last);
    if (last && (here || !last.todo || last.todo.some((item) => OPEN_STATES.has(item.status)))) {
      return changeAnywhere(after, (item) => item === last, (item) => ({ ...item, todo: data.items }));
    }
    // A list without a plan stands as one.
    return data.items.length ? add(after, event, { ...newPlan(event), phase: null, todo: data.items }, null) : after;
  },

  model_waiting(state, event, data) {
    // Outside turns a message waits until its user may have another turn.
    if (!event.turn_id) return { ...state, line: { place: data.place, since: event.at } };
    return during(state, event, { what: "waiting", place: data.place, reason: data.reason });
  },
  model_called(state, event, data) {
    if (data.purpose === "planning" || data.purpose === "review") {
      const begun = changePlan(state, event, (item) => ({ ...item }));
      return during(begun === state ? add(state, event, newPlan(event)) : begun, event, { what: "planning" });
    }
    if (data.purpose === "compression" && event.turn_id) return during(state, event, { what: "compressing" });
    if (data.purpose !== "turn") return state;
    // Each call names the profile that it is made as: what began the session may not be here. Old logs do not.
    const before = event.subagent_id ? subagentOf(state, event.subagent_id)?.profileId : state.profileId;
    const profileId = data.profile_id ?? before;
    const known = event.subagent_id ? state : { ...state, profileId };
    const item = {
      kind: "answer",
      key: `call-${data.call_id}`,
      seq: event.seq,
      callId: data.call_id,
      profileId,
      model: data.model,
      iteration: data.iteration,
      at: event.at,
      text: "",
      thinking: "",
      thinkingFrom: null,
      thinkingUntil: null,
      isOpen: true,
    };
    return during(add(known, event, item), event, { what: "asking", iteration: data.iteration, model: data.model });
  },
  thinking_delta(state, event, data) {
    if (data.text === undefined) return state;
    const after = changeCall(state, event, data.call_id, (item) => ({
      ...item,
      thinking: item.thinking + data.text,
      thinkingFrom: item.thinkingFrom ?? event.at,
    }));
    return during(after, event, { what: "thinking" }, keepsIteration);
  },
  thinking_ended: (state, event, data) =>
    changeCall(state, event, data.call_id, (item) => ({ ...item, thinkingUntil: event.at, thinkingEnded: event.at })),
  text_delta(state, event, data) {
    if (data.text === undefined) return state;
    const after = changeCall(state, event, data.call_id, (item) => ({
      ...item,
      text: item.text + data.text,
      thinkingUntil: item.thinkingFrom && !item.thinkingUntil ? event.at : item.thinkingUntil,
    }));
    return during(after, event, { what: "writing" }, keepsIteration);
  },
  model_replied(state, event, data) {
    const after = changeCall(state, event, data.call_id, (item) => ({
      ...item,
      text: data.content,
      thinking: data.thinking ?? "",
      // Of facts alone, so that a page that saw the deltas and one that did not show the same.
      thinkingFrom: data.thinking ? new Date(Date.parse(item.at) + (data.first_chunk_ms ?? 0)).toISOString() : null,
      thinkingUntil: item.thinkingEnded ?? event.at,
      isOpen: false,
      repliedSeq: event.seq,
      usage: data.usage,
      finishReason: data.finish_reason,
      durationMs: data.duration_ms,
      firstChunkMs: data.first_chunk_ms,
    }));
    if (after === state) return state;
    const tools = (data.tool_calls ?? []).map((call) => tool(event, call.id, call.name, call.arguments));
    return tools.reduce((so_far, item) => add(so_far, event, item), after);
  },
  model_call_failed(state, event, data) {
    return changeCall(state, event, data.call_id, (item) => ({
      ...item,
      text: data.kept ? [...data.partial_text].slice(0, data.kept).join("") : (data.partial_text ?? ""),
      thinking: "", // its deltas are not kept, so that it could not be shown again
      isOpen: false,
      isPartial: true,
      repliedSeq: event.seq,
      error: { kind: data.kind, text: data.error, willRetry: data.will_retry },
    }));
  },

  approval_requested(state, event, data) {
    const approval = { seq: event.seq, at: event.at, reason: data.reason, preview: data.preview, decision: null };
    const after = changeTool(state, event, data, (item) => ({ ...item, state: "waiting", approval }));
    return during(after, event, { what: "approval", name: data.name });
  },
  approval_decided(state, event, data) {
    const after = changeTool(state, event, data, (item) => ({
      ...item,
      arguments: data.arguments ?? item.arguments,
      approval: {
        ...item.approval,
        ...{ decision: data.decision, scope: data.scope, by: data.by, note: data.note, isEdited: Boolean(data.arguments) },
      },
    }));
    return during(after, event, { what: "starting" }, keepsIteration);
  },
  tool_started(state, event, data) {
    const after = changeTool(state, event, data, (item) => ({
      ...item,
      arguments: data.arguments,
      state: "running",
      from: event.at,
    }));
    return during(after, event, { what: "tool", name: data.name, arguments: data.arguments }, keepsIteration);
  },
  tool_output_delta: (state, event, data) =>
    data.text === undefined
      ? state
      : changeTool(state, event, data, (item) => ({ ...item, output: (item.output + data.text).slice(-LIVE_OUTPUT) })),
  tool_finished: (state, event, data) =>
    changeTool(state, event, data, (item) => ({
      ...item,
      state: TOOL_STATES[data.outcome] ?? data.outcome,
      output: data.output,
      isTruncated: data.truncated,
      until: event.at,
      durationMs: data.duration_ms,
      resultSeq: event.seq,
    })),
  image_shown: (state, event, data) =>
    changeTool(state, event, data, (item) => ({ ...item, images: [...(item.images ?? []), { ...data, seq: event.seq }] })),

  subagent_started(state, event, data) {
    const change = (item) => ({
      ...item,
      kind: "subagent",
      subagentId: event.subagent_id,
      profileId: data.profile_id,
      task: data.task,
      taskSeq: event.seq,
      items: [],
    });
    return changeItem(state, event, (item) => item.callId === data.call_id && item.kind === "tool", change);
  },
  subagent_finished: (state, event, data) =>
    changeItem(state, event, (item) => item.subagentId === event.subagent_id, (item) => ({
      ...item,
      result: data.result,
      completedNormally: data.completed_normally,
    })),

  context_compressed: (state, event, data) =>
    add(state, event, {
      kind: "summary",
      key: `summary-${event.seq}`,
      seq: event.seq,
      at: event.at,
      summary: data.summary,
      keptFromSeq: data.kept_from_seq,
      tokensBefore: data.tokens_before,
      tokensAfter: data.tokens_after,
      trigger: data.trigger,
      isUndone: false,
    }),
  compression_undone: (state, event, data) =>
    changeAnywhere(state, (item) => item.kind === "summary" && item.seq === data.compression_seq, (item) => ({
      ...item,
      isUndone: true,
    })),
  compression_failed: (state, event, data) => add(state, event, note(event, "not-compressed", { error: data.error })),
  memory_saved: (state, event, data) => add(state, event, note(event, "memory", { text: data.text, memoryId: data.memory_id })),
  memory_recalled: (state, event, data) =>
    data.content ? add(state, event, note(event, "recalled", { text: data.content, ids: data.memory_ids })) : state,
  budget_reached: (state, event, data) => add(state, event, note(event, "budget", data)),
  content_erased: (state, event) => add(state, event, note(event, "erased", {})),
};

const OPEN_STATES = new Set(["pending", "in_progress"]);

function newTurn(event) {
  return {
    key: `turn-${event.turn_id}`,
    turnId: event.turn_id,
    seq: event.seq,
    status: "running",
    startedAt: event.at,
    endedAt: null,
    items: [],
    isPlanned: false,
    now: { what: "starting", since: event.at },
  };
}

/** A page that opens in the middle of a long turn has not seen it start. */
function withTurn(state, event) {
  if (!event.turn_id || turnIndex(state, event) >= 0) return state;
  return { ...state, turns: [...state.turns, newTurn(event)] };
}

function newPlan(event) {
  const { seq, at, subagent_id: subagentId } = event;
  return { kind: "plan", key: `plan-${seq}`, seq, at, of: subagentId ?? null, phase: 1, text: "", steps: [], milestones: [], todo: null };
}

const changePlan = (state, event, change) =>
  changeItem(state, event, (item) => item.kind === "plan" && item.phase !== null && item.of === (event.subagent_id ?? null), change);

function keepsIteration(before) {
  return before?.iteration === undefined ? {} : { iteration: before.iteration };
}

function note(event, name, more) {
  return { ...more, kind: "note", key: `note-${event.seq}`, seq: event.seq, at: event.at, note: name };
}

function tool(event, callId, name, args) {
  return {
    kind: "tool",
    key: `tool-${callId}`,
    seq: event.seq,
    callId,
    name,
    arguments: args,
    state: "waiting",
    output: "",
    from: null,
    until: null,
    approval: null,
  };
}

/** Take the message of a receipt out of those that wait. */
function taken(waiting, seq) {
  return [waiting.find((item) => item.seq === seq), waiting.filter((item) => item.seq !== seq)];
}

function turnIndex(state, event) {
  const last = state.turns.length - 1;
  if (event.turn_id === null || event.turn_id === undefined) return -1;
  if (state.turns[last]?.turnId === event.turn_id) return last;
  return state.turns.findLastIndex((turn) => turn.turnId === event.turn_id);
}

function changeTurn(state, event, change) {
  const index = turnIndex(state, event);
  return index < 0 ? state : { ...state, turns: state.turns.with(index, change(state.turns[index])) };
}

function end(state, event, status, more) {
  return changeTurn(state, event, (turn) => ({ ...turn, ...more, status, endedAt: event.at, endSeq: event.seq, now: null }));
}

/** What the turn does now; a subagent's doings do not take the place of its parent's. */
function during(state, event, now, more = () => ({})) {
  return changeTurn(state, event, (turn) => {
    if (turn.status !== "running" || turn.now?.what === "stopping") return turn;
    const subagent = event.subagent_id ? subagentOf(state, event.subagent_id)?.profileId : undefined;
    const since = turn.now?.what === now.what && turn.now?.name === now.name ? turn.now.since : event.at;
    return { ...turn, now: { ...more(turn.now), ...now, since, subagent } };
  });
}

/** Put an item at the end of its turn, of its subagent, or between turns. */
function add(state, event, item, subagentId = event.subagent_id) {
  const index = turnIndex(state, event);
  if (index >= 0) {
    const turn = state.turns[index];
    return { ...state, turns: state.turns.with(index, { ...turn, items: added(turn.items, subagentId, item) }) };
  }
  const last = state.turns.at(-1);
  if (last?.status === "between") {
    return { ...state, turns: state.turns.with(-1, { ...last, items: [...last.items, item] }) };
  }
  const turn = { key: `between-${event.seq}`, turnId: null, seq: event.seq, status: "between", startedAt: event.at, endedAt: event.at, items: [item], now: null };
  return { ...state, turns: [...state.turns, turn] };
}

function added(items, subagentId, item) {
  if (!subagentId) return [...items, item];
  return changed(items, (other) => other.subagentId === subagentId, (subagent) => ({
    ...subagent,
    items: [...subagent.items, item],
  }));
}

/** Change the items of the turn of an event, or of its subagent. */
function changeItems(state, event, change) {
  return changeTurn(state, event, (turn) => ({
    ...turn,
    items: event.subagent_id
      ? changed(turn.items, (item) => item.subagentId === event.subagent_id, (item) => ({ ...item, items: change(item.items) }))
      : change(turn.items),
  }));
}

function changeItem(state, event, isIt, change) {
  const index = turnIndex(state, event);
  if (index < 0) return state;
  const turn = state.turns[index];
  const items = changed(turn.items, isIt, change);
  return items === turn.items ? state : { ...state, turns: state.turns.with(index, { ...turn, items }) };
}

function changeAnywhere(state, isIt, change) {
  const turns = state.turns.map((turn) => {
    const items = changed(turn.items, isIt, change);
    return items === turn.items ? turn : { ...turn, items };
  });
  return { ...state, turns };
}

const changeCall = (state, event, callId, change) =>
  changeItem(state, event, (item) => item.kind === "answer" && item.isOpen && item.callId === callId, change);

/** Change a tool's item; a tool that no reply of a turn asked for, a plan's for one, gets its item now. */
function changeTool(state, event, data, change) {
  const after = changeItem(state, event, (item) => item.callId === data.call_id && item.kind !== "answer", change);
  if (after !== state || !data.name) return after;
  return add(state, event, change(tool(event, data.call_id, data.name, data.arguments)));
}

/** The items with those changed that are meant, at any depth; the same array if there are none. */
function changed(items, isIt, change) {
  let found = false;
  const after = items.map((item) => {
    if (isIt(item)) {
      found = true;
      return change(item);
    }
    if (!item.items) return item;
    const inner = changed(item.items, isIt, change);
    if (inner === item.items) return item;
    found = true;
    return { ...item, items: inner };
  });
  return found ? after : items;
}

function subagentOf(state, subagentId) {
  const find = (items) => {
    for (const item of items) {
      if (item.subagentId === subagentId) return item;
      const inner = item.items && find(item.items);
      if (inner) return inner;
    }
    return null;
  };
  return find(state.turns.at(-1)?.items ?? []);
}
