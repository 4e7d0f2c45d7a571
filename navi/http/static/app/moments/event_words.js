// Events in words.

import { clock, t } from "../strings.js";

/** The name of a type of events, as people say it. */
export function typeName(type) {
  const name = `event-${type}`;
  const words = t(name);
  return words === name ? type.replaceAll("_", " ") : words; // of a newer navi
}

/**
 * What is looked at: "event 17: tool finished, 14:03:21".
 *
 * Text in the making has seqs of its own, which are no facts: it is told by the fact before it.
 */
export function momentWords(seq, facts, index) {
  const event = facts[index - 1];
  if (!event) return t(seq === 0 ? "moment-before-all" : "moment-unknown", { seq });
  const places = { seq, what: typeName(event.type), time: clock(event.at) };
  return t(event.seq === seq ? "moment-is" : "moment-after", places);
}
