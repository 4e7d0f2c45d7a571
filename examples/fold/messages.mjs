// Fold events into the messages that `GET /sessions/{id}/messages` gives: the rules of docs/events.md.
//
//     navi events SESSION --json | node messages.mjs
//
// Needs nothing but Node (or a browser: `Fold` uses nothing of Node), and nothing of navi. Feed it every fact
// of a session in order of `seq`, from 1 on; it passes over what it does not know.

const FLAGS = ["is_plan", "is_compression", "is_summary", "is_guidance", "is_partial", "is_withdrawn", "is_subagent"];

/** The messages of one session. */
export class Fold {
  #rows = new Map(); // by the seq of the event that brought them
  #turnCalls = new Set(); // open model calls of purpose `turn`
  #waiting = new Set(); // receipts that are neither delivered nor withdrawn

  /** All messages, in order. */
  messages() {
    return [...this.#rows.keys()].sort((a, b) => a - b).flatMap((seq) => this.#rows.get(seq));
  }

  /** Fold in the next event: an envelope, as on the WebSocket, on NATS, in /events and in exports. */
  take(event) {
    const { seq, data } = event;
    switch (event.type) {
      case "user_message_received": {
        const files = data.files?.length ? { files: data.files } : {};
        this.#put(event, { role: "user", content: data.content, turn_id: null, message_id: data.message_id, ...files });
        this.#waiting.add(seq);
        break;
      }
      case "message_delivered":
      case "message_withdrawn":
        if (this.#waiting.delete(data.message_seq)) {
          const delivered = event.type === "message_delivered";
          Object.assign(
            this.#rows.get(data.message_seq)[0],
            delivered ? { turn_id: event.turn_id } : { is_withdrawn: true },
          );
        }
        break;
      case "model_called":
        if (data.purpose === "turn") this.#turnCalls.add(data.call_id);
        break;
      case "model_replied": // calls for names, plans, memories make no messages
        if (this.#turnCalls.delete(data.call_id)) {
          const more = {};
          if (data.tool_calls.length) more.tool_calls = data.tool_calls;
          if (data.thinking) more.thinking = data.thinking;
          this.#put(event, { content: data.content, call_id: data.call_id, ...more });
        }
        break;
      case "model_call_failed":
        if (this.#turnCalls.delete(data.call_id) && data.partial_text) {
          // Of an answer that ran in circles only the beginning is kept; `kept` counts code points.
          const kept = data.kept ? [...data.partial_text].slice(0, data.kept).join("") : data.partial_text;
          this.#put(event, { content: kept, call_id: data.call_id, is_partial: true });
        }
        break;
      case "tool_finished":
        this.#put(event, { role: "tool", content: data.output, call_id: data.call_id, name: data.name });
        break;
      case "plan_ready":
        this.#put(event, { content: data.plan, is_plan: true });
        break;
      case "subagent_started":
        if (event.subagent_id) this.#put(event, { role: "user", content: data.task });
        break;
      case "context_compressed":
        this.#put(event, { content: data.summary, is_compression: true });
        break;
      case "conversation_taken_in":
        this.#put(event, ...(data.messages ?? []).map((message) => ({ ...message, turn_id: null })));
        break;
    }
  }

  #put(event, ...messages) {
    const subagent = event.subagent_id;
    const common = { seq: event.seq, at: event.at, turn_id: event.turn_id, role: "assistant" };
    for (const flag of FLAGS) common[flag] = false;
    common.is_subagent = subagent !== null;
    if (subagent) common.subagent_id = subagent;
    this.#rows.set(event.seq, messages.map((message) => ({ ...common, ...message })));
  }
}

if (globalThis.process?.argv[1] === (await import("node:url").catch(() => null))?.fileURLToPath(import.meta.url)) {
  const { createInterface } = await import("node:readline");
  const fold = new Fold();
  for await (const line of createInterface({ input: process.stdin })) fold.take(JSON.parse(line));
  console.log(JSON.stringify(fold.messages(), null, 2));
}
