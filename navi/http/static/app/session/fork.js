// Going on in a session of its own from a moment of another one.

import { ask, get, pathOf, post, request } from "../api.js";
import { go } from "../router.js";
import { countUntil } from "./event_log.js";
import { Outbox, inNew } from "./outbox.js";

const SENT_WITHIN = 300; // seconds for a file
const ENDS = new Set(["turn_completed", "turn_stopped", "turn_failed"]);
const NEXT = new Set(["message_delivered", "model_called"]);

/**
 * Fork a session and go there: at a seq, before a message of its conversation, or after an answer. A message is
 * the first that is said in it.
 *
 * @throws {Problem} it was refused; there is no fork then.
 */
export async function fork(session, at, message) {
  const { id } = await post(pathOf(session.id, "fork"), { at: seqOf(session.log.facts, at) });
  if (message) {
    await inNew(id, async () => Outbox.send(id, { ...message, files: await bring(message.files ?? [], session.id, id) }));
  }
  go({ sessionId: id });
}

function seqOf(facts, at) {
  if (typeof at === "number") return at;
  return at.repliedSeq ? seqAfter(facts, at.repliedSeq) : seqBefore(facts, at);
}

// A fork within a turn is one of a turn that was stopped, and goes back to before a call that is open there.

/** The seq of the last event that an answer came to: its tools have their results, or its turn has its end. */
function seqAfter(facts, repliedSeq) {
  const index = countUntil(facts, repliedSeq);
  let last = facts[index - 1];
  for (const fact of facts.slice(index).filter(({ turn_id: id }) => id === last.turn_id)) {
    if (NEXT.has(fact.type) && !fact.subagent_id) break;
    last = fact;
    if (ENDS.has(fact.type)) break;
  }
  return last.seq;
}

/** The seq before a message, where it stands in the conversation: one that came during a turn waited for its place. */
function seqBefore(facts, { seq, deliveredSeq = seq }) {
  const between = facts.slice(countUntil(facts, seq), countUntil(facts, deliveredSeq - 1));
  const start = between.findLast(({ type }) => type === "turn_started");
  const waited = between.some(({ turn_id: id }) => id && id !== start?.turn_id);
  if (!waited) return seq - 1;
  return (start?.seq ?? deliveredSeq) - 1;
}

/** Have files of a session in a fork of it, which has none that came later; gives what they are called there. */
async function bring(names, from, to) {
  if (!names.length) return names;
  const there = new Set((await get(pathOf(to, "files"))).files.map(({ name }) => name));
  const brought = [];
  for (const name of names) brought.push(there.has(name) ? name : await copy(name, from, to));
  return brought;
}

async function copy(name, from, to) {
  const seconds = SENT_WITHIN;
  const form = new FormData();
  form.append("file", await (await request("GET", pathOf(from, "files", name), { seconds })).blob(), name);
  const { files } = await ask("POST", pathOf(to, "files"), { form, seconds });
  return files[0].name;
}
