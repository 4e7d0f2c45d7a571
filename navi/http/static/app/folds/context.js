// The two buffers of a session side by side: what people see, and what the model sees of it.
//
// A state: {messages, rows, tokenCount, lastCall, compressions, ...}; never changed in place.
//   messages  what people see of the session's own agent, oldest first: {seq, role, content, kind, turnId}
//   rows      what the model sees, in its order, and what it saw before: {key, seq, role, content, kind,
//             turnId, hiddenBy}; `hiddenBy` is the seq of the compression that took its place, or null
//   lastCall  of the session's agent for a turn: {callId, seq, turnId, systemSha256, toolsSha256, isAnswered}
// `kind` is "said", "result", "plan", "summary", "guidance", "memory", "partial".
//
// The rules are those of the server's projections `messages` and `context` (GET /messages, GET /context).

const HEADING = "Instructions for this conversation, from here on:"; // what the server writes over them

export function initial() {
  return {
    messages: [],
    rows: [],
    tokenCount: null,
    lastCall: null,
    compressions: [],
    waiting: new Map(),
    calls: new Set(),
    recall: null,
  };
}

export function apply(state, event) {
  if (event.subagent_id) return state;
  return STEPS[event.type]?.(state, event, event.data ?? {}) ?? state;
}

export const buffers = { initial, apply };

/** What the model sees at a state, in its order. */
export function visibleRows(state) {
  return state.rows.filter((row) => row.hiddenBy === null);
}

const STEPS = {
  conversation_taken_in(state, event, data) {
    const texts = (data.messages ?? []).map((message) => `${message.role}: ${message.content}`);
    const row = said(event, "user", texts.join("\n\n"), "said");
    const after = texts.length ? both(state, row) : state;
    if (!data.instructions || !data.beside) return after; // they stand in the system message
    const guidance = [`${HEADING}\n${data.instructions}`, ...texts].join("\n\n");
    return seen(after, event.seq, said(event, "user", guidance, "guidance"));
  },
  user_message_received(state, event, data) {
    const row = { ...said(event, "user", data.content, "said"), turnId: null };
    const waiting = new Map(state.waiting).set(event.seq, row);
    return { ...state, waiting, messages: [...state.messages, row] };
  },
  message_delivered(state, event, data) {
    const found = state.waiting.get(data.message_seq);
    if (!found) return state;
    const row = { ...found, turnId: event.turn_id };
    const messages = state.messages.with(state.messages.findLastIndex((message) => message.seq === row.seq), row);
    return { ...state, waiting: without(state.waiting, row.seq), messages, rows: put(state.rows, event.seq, row) };
  },
  message_withdrawn: (state, event, data) => ({ ...state, waiting: without(state.waiting, data.message_seq) }),
  model_called(state, event, data) {
    if (data.purpose !== "turn") return state;
    const lastCall = {
      callId: data.call_id,
      seq: event.seq,
      turnId: event.turn_id,
      systemSha256: data.system_sha256,
      toolsSha256: data.tools_sha256,
      isAnswered: false,
    };
    return { ...state, lastCall, calls: new Set(state.calls).add(data.call_id) };
  },
  model_replied(state, event, data) {
    if (!state.calls.has(data.call_id)) return state;
    const calls = (data.tool_calls ?? []).map((call) => `${call.name} ${JSON.stringify(call.arguments)}`);
    const row = said(event, "assistant", [data.content, ...calls].filter(Boolean).join("\n"), "said");
    return {
      ...answered(state, data.call_id),
      tokenCount: data.usage?.prompt_tokens ?? state.tokenCount,
      messages: [...state.messages, row],
      rows: put(state.rows, event.seq, row),
    };
  },
  model_call_failed(state, event, data) {
    if (!state.calls.has(data.call_id)) return state;
    const after = answered(state, data.call_id);
    const text = data.answer || data.partial_text;
    const row = said(event, "assistant", text, "partial");
    return {
      ...after,
      messages: text ? [...after.messages, row] : after.messages,
      // It answered before it ran in circles: to the model that is its answer.
      rows: Number.isInteger(data.kept) ? put(after.rows, event.seq, { ...row, kind: "said" }) : after.rows,
    };
  },
  tool_finished: (state, event, data) => both(state, said(event, "tool", `${data.name}: ${data.output}`, "result")),
  plan_ready: (state, event, data) => both(state, said(event, "assistant", data.plan, "plan")),
  subagent_started: (state, event, data) => seen(state, event.seq, said(event, "user", data.task, "said")),
  guidance_given: (state, event, data) => seen(state, event.seq, said(event, "user", data.content, "guidance")),
  image_shown: (state, event, data) => seen(state, event.seq, said(event, "user", `${data.path}:`, "guidance")),
  memory_recalled(state, event, data) {
    if (!data.beside) return state;
    const place = state.recall?.turnId === event.turn_id ? state.recall : { turnId: event.turn_id, key: event.seq };
    const after = { ...state, recall: place };
    // What a compression has taken out of the context stays out.
    const told = data.content && !state.compressions.some((one) => one.keptFrom > place.key);
    return told ? seen(after, place.key, said(event, "user", data.content, "memory")) : after;
  },
  context_compressed(state, event, data) {
    const summary = said(event, "user", data.summary, "summary");
    const made = { seq: event.seq, keptFrom: data.kept_from_seq, tokenCount: state.tokenCount };
    const hidden = state.rows.map((row) =>
      row.hiddenBy === null && row.key < data.kept_from_seq ? { ...row, hiddenBy: event.seq } : row,
    );
    return {
      ...state,
      tokenCount: data.tokens_after,
      compressions: [...state.compressions, made],
      messages: [...state.messages, { ...summary, role: "assistant" }],
      rows: put(hidden, -event.seq, summary),
    };
  },
  compression_undone(state, event, data) {
    const undone = state.compressions.find((one) => one.seq === data.compression_seq);
    if (!undone) return state;
    const shown = state.rows
      .filter((row) => row.key !== -undone.seq)
      .map((row) => (row.hiddenBy === undone.seq ? { ...row, hiddenBy: null } : row));
    const compressions = state.compressions.filter((one) => one !== undone);
    return { ...state, tokenCount: undone.tokenCount, compressions, rows: shown };
  },
};

function said(event, role, content, kind) {
  return { seq: event.seq, at: event.at, role, content: String(content ?? ""), kind, turnId: event.turn_id ?? null };
}

const both = (state, row) => seen({ ...state, messages: [...state.messages, row] }, row.seq, row);
const seen = (state, key, row) => ({ ...state, rows: put(state.rows, key, row) });

/** Put a row where its key says: summaries (below 0) before all else, the newest of them first. */
function put(rows, key, row) {
  const made = { ...row, key, hiddenBy: null };
  if (!rows.length || rows.at(-1).key < key) return [...rows, made]; // nearly always: the buffer grows at its end
  const index = rows.findIndex((other) => other.key >= key);
  return rows[index].key === key ? rows.with(index, made) : rows.toSpliced(index, 0, made);
}

function answered(state, callId) {
  const calls = new Set(state.calls);
  calls.delete(callId);
  const { lastCall } = state;
  return { ...state, calls, lastCall: lastCall?.callId === callId ? { ...lastCall, isAnswered: true } : lastCall };
}

function without(map, key) {
  const rest = new Map(map);
  rest.delete(key);
  return rest;
}
