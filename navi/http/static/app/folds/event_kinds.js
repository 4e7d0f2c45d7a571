// What kind of thing an event is, for pictures: the few that people look for, and "other".

export const KINDS = ["message", "plan", "tool", "error", "compression", "profile", "approval"];

const KIND_OF = {
  user_message_received: "message",
  conversation_taken_in: "message",
  planning_phase_completed: "plan",
  plan_ready: "plan",
  todo_updated: "plan",
  tool_started: "tool",
  subagent_started: "tool",
  subagent_finished: "tool",
  model_call_failed: "error",
  turn_failed: "error",
  compression_failed: "error",
  budget_reached: "error",
  context_compressed: "compression",
  compression_undone: "compression",
  profile_switched: "profile",
  approval_requested: "approval",
  approval_decided: "approval",
};
// A call that gives way is tried again; nothing went wrong.
const NO_ERROR = new Set(["preempted", "overflow"]);

/** The kind of a fact; `other` is what has a place in no picture. */
export function kindOf({ type, data }) {
  if (type === "tool_finished") return data.outcome === "error" || data.outcome === "unknown" ? "error" : "tool";
  if (type === "model_replied") return data.content && !data.tool_calls?.length ? "message" : "other";
  if (type === "model_call_failed" && NO_ERROR.has(data.kind)) return "other";
  return KIND_OF[type] ?? "other";
}

/** Which of a session's facts are of each kind, as seqs in order: `{message: [2, 17], ...}`. */
export function seqsByKind(facts) {
  const seqs = Object.fromEntries([...KINDS, "other"].map((kind) => [kind, []]));
  const ofTurns = new Set(); // calls whose answers are messages
  for (const event of facts) {
    if (event.type === "model_called" && event.data.purpose === "turn") ofTurns.add(event.data.call_id);
    const kind = kindOf(event);
    const isAside = event.type === "model_replied" && !ofTurns.delete(event.data.call_id);
    seqs[isAside ? "other" : kind].push(event.seq);
  }
  return seqs;
}

/**
 * The ticks of some seqs as one path, in a picture that is `head` wide: at most `columns` of them.
 *
 * Ticks that would fall on one column are one.
 */
export function ticks(seqs, head, { top, bottom, columns = 2000 }) {
  const scale = head > columns ? columns / head : 1;
  let path = "";
  let last = -1;
  for (const seq of seqs) {
    const column = Math.round(seq * scale);
    if (column === last) continue;
    last = column;
    path += `M${Math.round((column / scale) * 100) / 100} ${top}V${bottom}`;
  }
  return path;
}
