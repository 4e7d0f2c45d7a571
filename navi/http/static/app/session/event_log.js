// The events of one session, as far as they are here: its end first, what came before when it is wanted,
// and what comes from now on. Everything that the page shows of a session is a fold of these.

import { Problem, get, pathOf } from "../api.js";
import { signal } from "../html.js";
import { LiveSocket } from "./live_socket.js";

const FIRST = 200; // facts of the end that a session opens with
const CHUNK = 2000; // facts a request, going back
const LARGEST = 10_000; // facts a request, where many are wanted
const DELTAS = new Set(["text_delta", "thinking_delta", "tool_output_delta", "model_waiting"]);
const MISSED = 10_000; // events that are asked for at once where no socket can be had
const OPENS = new Set(["model_called", "tool_started"]);
const CLOSES = new Set(["model_replied", "model_call_failed", "tool_finished"]);

export function isDelta(event) {
  return DELTAS.has(event.type);
}

export class EventLog {
  constructor(sessionId) {
    this.sessionId = sessionId;
    /** Facts in order of seq: all with a seq above `from`. */
    this.facts = [];
    this.from = null;
    /** The largest seq that is known to be committed. */
    this.head = signal(0);
    /** Raised whenever facts were loaded: at first, before those that were here, and in their place. */
    this.grown = signal(0);
    /** Deltas of calls that are open: what they come to stands in the fact that closes a call. */
    this.deltas = [];
    this._listeners = new Set();
    this._last = 0; // seq of the last event taken in
    /** A promise while facts of before are loaded, else null. */
    this.loading = null;
  }

  get isWhole() {
    return this.from === 0;
  }

  /** Load the end of the log and follow it from there. */
  async open({ onEnd, onReady }) {
    const { events, from } = await this.page({ limit: FIRST });
    this.facts = []; // an attempt before this one may have come so far
    this._put(events, from);
    this._last = this.head.value = events.at(-1)?.seq ?? 0;
    await this._reachLastTurn();
    if (this._closed) return;
    // The text of a call that is open was sent before; it is sent again from where the call began.
    const open = this._openCalls();
    const after = open.length ? Math.min(...open.map((event) => event.seq)) : this._last;
    this._last = after;
    this.facts = this.facts.filter((event) => event.seq <= after);
    this.grown.value++;
    this.socket = new LiveSocket(this.sessionId, {
      after: () => this._last,
      onEvent: (event) => this._take(event),
      onReady: (frame) => {
        this.head.value = Math.max(this.head.value, frame.seq);
        onReady?.(frame);
      },
      onEnd,
      onShut: () => this._catchUp(onEnd),
    });
  }

  /** Load back to where the last turn began, and to the messages that it was given. */
  async _reachLastTurn() {
    const id = this.facts.findLast((event) => event.turn_id)?.turn_id;
    const isWhole = () => {
      const turn = this.facts.filter((event) => event.turn_id === id);
      const given = turn.flatMap((event) => (event.type === "message_delivered" ? [event.data.message_seq] : []));
      return turn.some((event) => event.type === "turn_started") && given.every((seq) => seq > this.from);
    };
    while (id && this.from > 0 && !isWhole()) await this.reach(this.from - 1);
  }

  close() {
    this._closed = true;
    this.socket?.close();
    this._listeners.clear();
  }

  /** Call `listener` with every event that comes, facts and deltas; gives what ends that. */
  listen(listener) {
    this._listeners.add(listener);
    return () => this._listeners.delete(listener);
  }

  /** Whether the event of a seq has come here, or is further back than what is here. */
  has(seq) {
    return seq <= this._last;
  }

  /** Ask for what was missed, as no socket can be had; gives what that says about when one can. */
  async _catchUp(onEnd) {
    try {
      const query = new URLSearchParams({ after: String(this._last), limit: String(MISSED) });
      const { events } = await get(`${pathOf(this.sessionId, "events")}?${query}`);
      if (!this._closed) for (const event of events) this._take(event);
      return { isThere: true };
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (error.status === 404) onEnd?.("gone");
      return { isThere: !error.mayPass, seconds: error.retryAfter ?? 0 };
    }
  }

  /** Take in an event of the socket. */
  _take(event) {
    if (event.seq <= this._last) return;
    this._last = event.seq;
    if (isDelta(event)) this.deltas.push(event);
    else {
      this.facts.push(event);
      if (CLOSES.has(event.type)) {
        const call = event.data.call_id;
        this.deltas = this.deltas.filter((delta) => delta.data.call_id && delta.data.call_id !== call);
      }
    }
    if (event.seq > this.head.value) this.head.value = event.seq;
    for (const listener of this._listeners) listener(event);
  }

  /** Load what came before, until all facts above `seq` are here; 0 for all of them. */
  async reach(seq = 0) {
    while (this.from > seq) {
      this.loading ??= this._back(seq).finally(() => {
        this.loading = null;
      });
      await this.loading;
    }
  }

  // Folds begin anew with what is loaded, so all that is wanted is put there at once.
  async _back(seq) {
    const pages = [];
    let from = this.from;
    while (from > seq) {
      const page = await this.page({ before: from + 1, limit: Math.min(Math.max(from - seq, CHUNK), LARGEST) });
      pages.unshift(page.events);
      from = page.from;
    }
    this._put(pages.flat(), from);
    this.grown.value++;
  }

  /** A page of facts, and the seq above which it has all of them. */
  async page(query) {
    const search = new URLSearchParams({ kind: "fact", ...query });
    if (!("before" in query)) search.set("before", String(Number.MAX_SAFE_INTEGER));
    const { events } = await get(`${pathOf(this.sessionId, "events")}?${search}`);
    // Less than was asked for: the log begins here.
    return { events, from: events.length < query.limit ? 0 : events[0].seq - 1 };
  }

  _put(facts, from) {
    this.facts = [...facts, ...this.facts];
    this.from = from;
  }

  /** The calls that are open at a seq, `{from, until, open}`: the same, seq by call id, from `from` to `until`. */
  callsAround(seq) {
    const open = new Map(this._openCalls(seq).map((event) => [event.data.call_id, event.seq]));
    const index = countUntil(this.facts, seq);
    return { from: this.facts[index - 1]?.seq ?? 0, until: (this.facts[index]?.seq ?? Infinity) - 1, open };
  }

  /** What open calls put out until then, `{from, until, events}`: deltas in order, all of them from `from` to `until`. */
  async deltasOf({ from, until, open }, signal) {
    if (!open.size) return { from, until, events: [] };
    const query = new URLSearchParams({ kind: "delta", after: String(Math.min(...open.values())) });
    if (until < Infinity) query.set("before", String(until + 1));
    const { seq: head, events } = await get(`${pathOf(this.sessionId, "events")}?${query}`, { signal });
    // What other calls put out stands in the facts that ended them; a wait is over with the next fact.
    const isOpen = ({ seq, data }) => (data.call_id ? open.has(data.call_id) : seq > from);
    return { from, until: Math.min(until, head), events: events.filter(isOpen) };
  }

  _openCalls(until = Infinity) {
    const open = new Map();
    for (const event of this.facts) {
      if (event.seq > until) break;
      if (OPENS.has(event.type)) open.set(event.data.call_id, event);
      // A call of a subagent puts out nothing itself, and may take hours.
      else if (CLOSES.has(event.type) || event.type === "subagent_started") open.delete(event.data.call_id);
    }
    return [...open.values()];
  }
}

/** How many facts have a seq of at most `seq`. */
export function countUntil(facts, seq) {
  let low = 0;
  let high = facts.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (facts[middle].seq <= seq) low = middle + 1;
    else high = middle;
  }
  return low;
}
