// What the actors of a session did when: its turns, each with the spans of planning, model calls, tools,
// waits for approval and subagents. The boundaries are those of `navi trace`: an event begins a span and
// another one ends it; what lies within another span never reaches beyond it.
//
// A turn: {turnId, number, seq, text, from, until, status, spans}. A span: {key, parent, kind: "planning" |
// "call" | "tool" | "approval" | "subagent", actor (the subagent's id, null for the session's agent), name,
// from, until, state, seq, ...}. Times are milliseconds; `until` is null while it goes on.
//
// A call has {callId, purpose, model, iteration, firstAt, thinkingUntil, hasThought, usage, estimate}:
// `parts` gives what it waited, thought and wrote.

const AGENT = "agent";
const PLANNING = new Set(["planning", "review"]);
const ENDS = { turn_completed: "completed", turn_stopped: "stopped", turn_failed: "failed" };
const TOOL_STATES = { ok: "done", error: "failed" };

/** An event's time in milliseconds, with what it has of microseconds. */
function timeOf(at) {
  return Date.parse(`${at.slice(0, 23).replace("Z", "")}Z`) + Number(at.slice(23, 26).replace("Z", "") || 0) / 1000;
}

export const turnSpans = {
  initial: () => ({ turns: [], receipts: new Map(), queuedAt: new Map(), at: 0 }),
  apply(state, event) {
    const step = STEPS[event.type];
    const after = step ? step(state, event, event.data ?? {}) : state;
    return { ...after, at: timeOf(event.at) };
  },
};

const STEPS = {
  user_message_received: (state, event, data) => ({
    ...state,
    receipts: new Map(state.receipts).set(event.seq, data.content),
  }),
  message_withdrawn: (state, event, data) => ({ ...state, receipts: without(state.receipts, data.message_seq) }),
  message_delivered(state, event, data) {
    const text = state.receipts.get(data.message_seq);
    const after = { ...state, receipts: without(state.receipts, data.message_seq) };
    return changeTurn(after, event, (turn) => (turn.text === null ? { ...turn, text: text ?? "" } : turn));
  },
  turn_started(state, event) {
    const turn = {
      turnId: event.turn_id,
      number: state.turns.length + 1,
      seq: event.seq,
      text: null,
      from: timeOf(event.at),
      until: null,
      status: "running",
      spans: [],
    };
    return { ...state, turns: [...state.turns, turn], queuedAt: new Map() };
  },
  turn_completed: end,
  turn_stopped: end,
  turn_failed: end,

  // A delta, which may be gone later: when a call began to wait for its turn at the model server.
  model_waiting(state, event, data) {
    if (data.pruned || state.queuedAt.has(event.subagent_id)) return state;
    return { ...state, queuedAt: new Map(state.queuedAt).set(event.subagent_id, timeOf(event.at)) };
  },
  model_called(state, event, data) {
    if (!event.turn_id || data.node) return state; // what follows a turn is none of its doings
    const queuedFrom = state.queuedAt.get(event.subagent_id) ?? null;
    const after = queuedFrom === null ? state : { ...state, queuedAt: without(state.queuedAt, event.subagent_id) };
    return changeTurn(after, event, (turn) => {
      let spans = turn.spans;
      let parent = actorKey(spans, event);
      if (PLANNING.has(data.purpose)) {
        let phase = openPhase(spans, event);
        if (!phase) {
          phase = begun(event, { key: `plan ${data.call_id}`, parent, kind: "planning", name: "planning" });
          spans = opened(spans, phase);
        }
        parent = phase.key;
      }
      const call = begun(event, {
        key: `call ${data.call_id}`,
        parent,
        kind: "call",
        name: data.purpose,
        callId: data.call_id,
        purpose: data.purpose,
        model: data.model,
        iteration: data.iteration,
        queuedFrom,
        firstAt: null,
        thinkingUntil: null,
        hasThought: false,
        usage: null,
        estimate: null,
      });
      return { ...turn, spans: opened(spans, call) };
    });
  },
  thinking_delta: (state, event, data) =>
    changeSpan(state, event, `call ${data.call_id}`, (call) =>
      call.hasThought || call.until !== null ? call : { ...call, firstAt: call.firstAt ?? timeOf(event.at), hasThought: true },
    ),
  thinking_ended: (state, event, data) =>
    changeSpan(state, event, `call ${data.call_id}`, (call) => ({
      ...call,
      hasThought: true,
      thinkingUntil: timeOf(event.at),
    })),
  text_delta: (state, event, data) =>
    changeSpan(state, event, `call ${data.call_id}`, (call) =>
      call.firstAt !== null && (!call.hasThought || call.thinkingUntil !== null)
        ? call
        : {
            ...call,
            firstAt: call.firstAt ?? timeOf(event.at),
            thinkingUntil: call.hasThought ? (call.thinkingUntil ?? timeOf(event.at)) : null,
          },
    ),
  model_replied: (state, event, data) =>
    close(state, event, `call ${data.call_id}`, (call) => ({
      state: "done",
      firstAt: typeof data.first_chunk_ms === "number" ? call.from + data.first_chunk_ms : call.firstAt,
      hasThought: call.hasThought || Boolean(data.thinking),
      usage: data.usage ?? null,
      estimate: data.estimate ?? null,
      hasText: Boolean(data.content) || data.tool_calls?.length > 0,
    })),
  model_call_failed: (state, event, data) =>
    close(state, event, `call ${data.call_id}`, () => ({
      state: data.kind === "stopped" ? "stopped" : "failed",
      failure: data.kind,
      willRetry: Boolean(data.will_retry),
      usage: data.usage ?? null,
      estimate: data.estimate ?? null,
    })),
  planning_phase_completed: (state, event, data) =>
    changeTurn(state, event, (turn) => {
      const phase = openPhase(turn.spans, event);
      if (!phase) return turn;
      const more = { phase: data.phase, verdict: data.verdict, state: data.verdict === "failed" ? "failed" : "done" };
      return { ...turn, spans: closed(turn.spans, phase.key, event, more) };
    }),

  approval_requested: (state, event, data) =>
    open(state, event, { key: `approval ${data.call_id}`, kind: "approval", name: data.name, callId: data.call_id }),
  approval_decided: (state, event, data) =>
    close(state, event, `approval ${data.call_id}`, () => ({
      state: data.decision === "deny" ? "denied" : "done",
      decision: data.decision,
    })),
  tool_started: (state, event, data) => open(state, event, toolSpan(data)),
  tool_finished(state, event, data) {
    const begun = open(state, event, toolSpan(data)); // one that never ran is a moment
    return close(begun, event, `tool ${data.call_id}`, () => ({ state: TOOL_STATES[data.outcome] ?? data.outcome }));
  },
  subagent_started(state, event, data) {
    if (!event.subagent_id) return state;
    return changeTurn(state, event, (turn) => {
      const tool = `tool ${data.call_id}`;
      const span = begun(event, {
        key: `agent ${event.subagent_id}`,
        parent: turn.spans.some(({ key }) => key === tool) ? tool : AGENT,
        kind: "subagent",
        name: data.profile_id,
      });
      return { ...turn, spans: opened(turn.spans, span) };
    });
  },
  subagent_finished: (state, event, data) =>
    close(state, event, `agent ${event.subagent_id}`, () => ({ state: data.completed_normally ? "done" : "failed" })),
};

/**
 * The spans of a turn, those that are open up to `now`, each within its parent, in the order of their
 * beginning: `isOpen` says of which there is more to come.
 *
 * Nodes that share a turn have clocks of their own, which differ.
 */
export function spansOf(turn, now) {
  const end = turn.until ?? Math.max(turn.from, now);
  const within = new Map([[AGENT, { from: turn.from, until: end }]]);
  return turn.spans.map((span) => {
    const parent = within.get(span.parent) ?? within.get(AGENT);
    const from = Math.min(Math.max(span.from, parent.from), parent.until);
    const until = Math.min(Math.max(Math.max(span.from, span.until ?? end), from), parent.until);
    const placed = { ...span, from, until, isOpen: span.until === null };
    within.set(span.key, placed);
    return placed;
  });
}

/** What a placed call waited, thought and wrote: `[{part, from, until}]`, which together are the call. */
export function parts(call) {
  const first = call.firstAt === null ? call.until : clamp(call.firstAt, call.from, call.until);
  const found = [{ part: "waiting", from: call.from, until: first }];
  let wrote = first;
  if (call.hasThought) {
    const thinks = call.thinkingUntil ?? (call.isOpen || !call.hasText ? call.until : first);
    wrote = clamp(thinks, first, call.until);
    found.push({ part: "thinking", from: first, until: wrote });
  }
  found.push({ part: "writing", from: wrote, until: call.until });
  return found.filter(({ from, until }) => until > from);
}

/** The turn with the queueing of its calls, as the deltas of kind `model_waiting` tell it. */
export function withQueues(turn, waits) {
  const spans = turn.spans.map((span) => {
    if (span.kind !== "call" || span.queuedFrom !== null) return span;
    const before = turn.spans.filter((other) => other.kind === "call" && other.actor === span.actor && other.seq < span.seq);
    const after = before.at(-1)?.seq ?? turn.seq;
    const wait = waits.find(
      ({ seq, subagent_id: actor, data }) => seq > after && seq < span.seq && (actor ?? null) === span.actor && !data.pruned,
    );
    return wait ? { ...span, queuedFrom: timeOf(wait.at) } : span;
  });
  return { ...turn, spans };
}

function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

function toolSpan(data) {
  return { key: `tool ${data.call_id}`, kind: "tool", name: data.name, callId: data.call_id };
}

function begun(event, span) {
  const actor = event.subagent_id ?? null;
  return { ...span, actor, from: timeOf(event.at), until: null, state: "running", seq: event.seq };
}

/** The spans with one more; one that was begun goes on. */
function opened(spans, span) {
  return spans.some(({ key }) => key === span.key) ? spans : [...spans, span];
}

function closed(spans, key, event, more) {
  const index = spans.findIndex((span) => span.key === key && span.until === null);
  return index < 0 ? spans : spans.with(index, { ...spans[index], ...more, until: timeOf(event.at), endSeq: event.seq });
}

function actorKey(spans, event) {
  const key = `agent ${event.subagent_id}`;
  return event.subagent_id && spans.some((span) => span.key === key) ? key : AGENT;
}

function openPhase(spans, event) {
  const actor = event.subagent_id ?? null;
  return spans.find((span) => span.kind === "planning" && span.actor === actor && span.until === null);
}

function open(state, event, span) {
  return changeTurn(state, event, (turn) => {
    const spans = opened(turn.spans, begun(event, { ...span, parent: actorKey(turn.spans, event) }));
    return spans === turn.spans ? turn : { ...turn, spans };
  });
}

function close(state, event, key, more) {
  return changeTurn(state, event, (turn) => {
    const span = turn.spans.find((other) => other.key === key);
    return span ? { ...turn, spans: closed(turn.spans, key, event, more(span)) } : turn;
  });
}

function changeSpan(state, event, key, change) {
  return changeTurn(state, event, (turn) => {
    const index = turn.spans.findLastIndex((span) => span.key === key);
    if (index < 0) return turn;
    const after = change(turn.spans[index]);
    return after === turn.spans[index] ? turn : { ...turn, spans: turn.spans.with(index, after) };
  });
}

function end(state, event) {
  return changeTurn(state, event, (turn) => ({
    ...turn,
    status: ENDS[event.type],
    until: timeOf(event.at),
    endSeq: event.seq,
  }));
}

function changeTurn(state, event, change) {
  if (!event.turn_id) return state;
  const index = state.turns.findLastIndex((turn) => turn.turnId === event.turn_id);
  if (index < 0) return state;
  const after = change(state.turns[index]);
  return after === state.turns[index] ? state : { ...state, turns: state.turns.with(index, after) };
}

function without(map, key) {
  const after = new Map(map);
  after.delete(key);
  return after;
}
