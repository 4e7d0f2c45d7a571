// Follow navi's events on NATS: one line an event, each processed once, in order, over any restart.
//
// The place in the stream is kept by a durable consumer on the NATS server; what was made of the
// events, here the conversation, in an SQLite file. NATS delivers at least once: what comes again is
// recognised by (session_id, seq).

import { execFileSync } from "node:child_process";
import { DatabaseSync } from "node:sqlite";
import { parseArgs } from "node:util";
import { AckPolicy, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect, nanos } from "@nats-io/transport-node";

const ACK_MS = 5_000; // what is not acknowledged within this time is delivered again
const RETRY_MS = 1_000;

// Deltas take numbers too, and are on `navi.deltas`. Text in the making comes while a call of these is open ...
const MAKING_TEXT = ["turn", "tool"];
// ... and `model_waiting` before one of these: who waits may also stop, or say more.
const AFTER_WAITING = [
  ...["model_called", "turn_started", "turn_resumed"],
  ...["user_message_received", "stop_requested", "turn_stopped"],
];

const { values: options } = parseArgs({
  options: {
    url: { type: "string" }, // of NATS; else `navi status --json` is asked
    owner: { type: "string" }, // only the sessions of this owner (`local` without accounts)
    durable: { type: "string", default: "node-example" }, // name of the durable consumer
    state: { type: "string", default: "conversations.sqlite" }, // file of what was processed
    partitions: { type: "string", default: "1" }, // as in NAVI_LOG_PARTITIONS
    bind: { type: "boolean", default: false }, // the durable is there, and not ours to make
  },
});
const partitions = Number(options.partitions);

/** What is not an event goes to standard error. */
const say = (text) => console.error(text);

const database = new DatabaseSync(options.state, { timeout: 5_000 });
database.exec(`
  PRAGMA journal_mode = WAL;
  CREATE TABLE IF NOT EXISTS session (session_id PRIMARY KEY, seq, open_calls);
  CREATE TABLE IF NOT EXISTS message (session_id, seq, role, content);
`);
const findSession = database.prepare("SELECT seq, open_calls FROM session WHERE session_id = ?");
const keepSession = database.prepare("INSERT OR REPLACE INTO session VALUES (?, ?, ?)");
const addMessage = database.prepare("INSERT INTO message VALUES (?, ?, ?, ?)");

const eraseMessages = database.prepare(
  "DELETE FROM message WHERE session_id = ? AND seq = coalesce(?, seq)",
);

/** Process one event; gives the line to print, null for one that was processed before. */
function take(event) {
  const { session_id, seq, type, data } = event;
  const before = findSession.get(session_id);
  if (before && seq <= before.seq) {
    say(`again ${session_id} ${seq}: processed before`);
    return null;
  }
  const calls = new Map(before ? JSON.parse(before.open_calls) : []); // purpose, or "tool"
  const isHole = before && seq > before.seq + 1;
  if (!before && type !== "session_created") {
    calls.set("?", "turn"); // which calls are open is not known, so no hole is judged
    say(`late  ${session_id} begins at ${seq}: NATS keeps nothing from before`);
  } else if (isHole && !isMakingText(calls) && !AFTER_WAITING.includes(type)) {
    say(`gap   ${session_id} ${before.seq + 1} to ${seq - 1} are not there (erased, or too old)`);
  }
  if (type === "model_called") calls.set(data.call_id, data.purpose);
  if (type === "tool_started") calls.set(data.call_id, "tool");
  const purpose = calls.get(data.call_id);
  if (["model_replied", "model_call_failed", "tool_finished"].includes(type)) {
    calls.delete(data.call_id);
  }
  const message = event.subagent_id ? null : messageOf(event, purpose);
  keep(event, calls, message);
  return [session_id, seq, type, ...(message ?? []).map((text) => JSON.stringify(text))].join("\t");
}

/** Whether text may be in the making now, and take numbers. */
function isMakingText(calls) {
  return [...calls.values()].some((kind) => MAKING_TEXT.includes(kind));
}

/** All that one event changes, or nothing. */
function keep({ session_id, seq, type, data }, calls, message) {
  database.exec("BEGIN IMMEDIATE");
  try {
    keepSession.run(session_id, seq, JSON.stringify([...calls]));
    if (message) addMessage.run(session_id, seq, ...message);
    if (type === "content_erased") {
      // Of the session itself, or of one it was forked from; of all its events, or of some.
      for (const erased of data.seqs ?? [null]) eraseMessages.run(data.session_id, erased);
    }
    database.exec("COMMIT");
  } catch (error) {
    database.exec("ROLLBACK");
    throw error;
  }
}

/** Role and text of the message that an event is; null for all others, unknown types too. */
function messageOf({ type, data }, purpose) {
  if (type === "user_message_received") return ["user", data.content];
  if (type === "model_replied" && purpose === "turn") return ["assistant", data.content];
  if (type === "tool_finished") return ["tool", data.output];
  return null;
}

/** Process what comes on a stream, for ever; where it was made anew, begin it again. */
async function follow(connection, stream) {
  const config = {
    durable_name: options.durable,
    filter_subject: subjectOf(stream),
    ack_policy: AckPolicy.Explicit,
    ack_wait: nanos(ACK_MS),
    max_ack_pending: 1, // else what is delivered again comes behind what follows it
  };
  for (;;) {
    try {
      const { consumers } = jetstream(connection);
      let durable = { stream_name: stream, name: options.durable, config };
      if (!options.bind) {
        const manager = await jetstreamManager(connection, { checkAPI: false });
        durable = await manager.consumers.add(stream, config); // made, or found as it is
      }
      const consumer = consumers.getConsumerFromInfo(durable);
      for (;;) {
        const message = await consumer.next({ expires: 5_000 });
        if (!message) continue; // nothing new
        const line = take(message.json());
        if (line) console.log(line);
        message.ack(); // only now: killed before, it comes again
      }
    } catch (error) {
      if (connection.isClosed()) throw error;
      say(`wait  ${stream}: ${error.message}`);
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

/** All facts of a stream, or those of one owner. */
function subjectOf(stream) {
  if (!options.owner) return "navi.events.>";
  const partition = partitions > 1 ? `${stream.replace("NAVI_", "")}.` : "";
  return `navi.events.${partition}${options.owner}.>`;
}

const ask = () => JSON.parse(execFileSync("navi", ["status", "--json"])).nats_url;
const { username, password, host } = new URL(options.url ?? ask());
const login = decodeURIComponent(username);
const waiting = setInterval(() => say(`wait  NATS does not answer at ${host}`), 2 * RETRY_MS);
const connection = await connect({
  servers: host,
  ...(password ? { user: login, pass: decodeURIComponent(password) } : login && { token: login }),
  maxReconnectAttempts: -1,
  waitOnFirstConnect: true,
});
clearInterval(waiting);
const streams = Array.from({ length: partitions }, (_, number) => `NAVI_${number}`);
await Promise.all(streams.map((stream) => follow(connection, stream)));
