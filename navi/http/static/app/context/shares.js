// What the model's window is filled with: the tokens that the server counted, shared out by characters.

import { get, pathOf } from "../api.js";
import { visibleRows } from "../folds/context.js";
import { signal } from "../html.js";

/** The parts, in the order in which a request has them. */
export const PARTS = ["system", "tools", "summary", "memory", "history", "turn"];

const USUAL = 4; // characters of a token, where nothing better is known

// What every call of a session begins with is long and rarely another: it is asked for once for each
// pair of hashes, `{system, tools}` in characters; null while nobody has asked, or answered.
const fixed = new Map();

/**
 * The characters of system message and tools of a call, a signal; null as long as they are not known.
 *
 * To know them costs the whole request, so that they are asked for where `isAsked` only.
 */
export function fixedPart(sessionId, call, isAsked) {
  const key = `${call.systemSha256} ${call.toolsSha256}`;
  const found = fixed.get(key) ?? { lengths: signal(null), isAsked: false };
  fixed.set(key, found);
  if (isAsked && !found.isAsked) {
    found.isAsked = true;
    get(`${pathOf(sessionId, "calls", call.callId)}/request`).then(
      ({ request }) => {
        found.lengths.value = lengthsOf(request);
      },
      () => {
        found.isAsked = false; // asked again with the next call
      },
    );
  }
  return found.lengths;
}

function lengthsOf(request) {
  const system = (request.messages ?? []).filter((message) => message.role === "system");
  const text = system.reduce((sum, message) => sum + JSON.stringify(message.content ?? "").length, 0);
  return { system: text, tools: JSON.stringify(request.tools ?? []).length };
}

/**
 * Tokens by part, `{used, parts: {system, ...}, isExact}`; null before the first call.
 *
 * The sum is what the server counted; `lengths` is of the fixed part, null where it is not known, and it
 * then gets what the conversation leaves.
 */
export function sharesOf(state, lengths) {
  if (state.tokenCount === null) return null;
  const characters = Object.fromEntries(PARTS.map((part) => [part, 0]));
  const turnId = state.lastCall?.turnId ?? null;
  for (const row of visibleRows(state)) characters[partOf(row, turnId)] += row.content.length;
  const said = Object.values(characters).reduce((sum, count) => sum + count, 0);
  if (lengths) Object.assign(characters, lengths);
  else characters.system = Math.max(0, state.tokenCount * USUAL - said);
  const all = Object.values(characters).reduce((sum, count) => sum + count, 0) || 1;
  const parts = Object.fromEntries(PARTS.map((part) => [part, (state.tokenCount * characters[part]) / all]));
  return { used: state.tokenCount, parts, isExact: lengths !== null };
}

function partOf(row, turnId) {
  if (row.kind === "summary" || row.kind === "memory") return row.kind;
  return row.turnId !== null && row.turnId === turnId ? "turn" : "history";
}
