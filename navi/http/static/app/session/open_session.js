// The session that is open: its log, its conversation, and the moment at which it is looked at.

import { Problem, get, patch, pathOf, post, signedOut } from "../api.js";
import { complain, offer } from "../announce.js";
import { stoppedAt } from "../clock.js";
import { computed, effect, signal, untracked } from "../html.js";
import { conversation } from "../folds/conversation.js";
import { notLoaded } from "../lazy.js";
import { go, route } from "../router.js";
import { t } from "../strings.js";
import { EventLog, countUntil } from "./event_log.js";
import { History } from "./history.js";
import { Outbox } from "./outbox.js";
import { asked } from "./profiles.js";

// Facts after which what `GET /sessions/{id}` says may be another.
const CHANGES_SESSION = new Set([
  ...["session_renamed", "session_pinned", "profile_switched", "turn_started", "turn_completed", "turn_stopped"],
  ...["turn_failed", "model_replied", "model_call_failed", "context_compressed", "compression_undone"],
  ...["approval_requested", "approval_decided"],
]);
const NO_DELTAS = { from: 0, until: -1, events: [] };
const READ_AGAIN_AFTER = 150; // ms, so that a burst of events costs one request
const NAMED_WITHIN = 2000; // ms in which the names of profiles are waited for
const COMPRESSED_WITHIN = 300; // seconds: a model on one's own machine may take minutes

/** The `OpenSession` of the address; null on a page that is about none. */
export const current = signal(null);

export class OpenSession {
  constructor(id) {
    this.id = id;
    this.log = new EventLog(id);
    /** What `GET /sessions/{id}` says: name, profile_id, status, waiting, context_window, usage, ... */
    this.row = signal(null);
    /** "loading", "here", "gone" or "failed" (then `problem` says why). */
    this.state = signal("loading");
    this.problem = signal(null);
    this._histories = new Map();
    this.outbox = new Outbox(id, (seq) => this.log.has(seq));
    /** The seq that is looked at; null for now. */
    this.moment = computed(() => (route.value.sessionId === id ? route.value.at : null));
    this._deltas = signal(NO_DELTAS);
    /** The conversation at the moment that is looked at. */
    this.conversation = computed(() => this.fold(conversation));
    this._stop = [effect(() => this._fetchDeltas(this.moment.value)), effect(() => this._stopClock())];
    this._load();
  }

  close() {
    this._closed = true;
    this.log.close();
    this.outbox.close();
    clearTimeout(this._reading);
    clearTimeout(this._retry);
    for (const stop of this._stop) stop();
    stoppedAt.value = null;
    for (const history of this._histories.values()) history.close();
  }

  /**
   * The state of a fold, `{initial(), apply(state, event)}`, at the moment that is looked at: read within a
   * view or a `computed`, it is followed.
   */
  fold(fold) {
    const history = this._history(fold);
    const now = history.now.value;
    const at = this.moment.value;
    if (at === null || this.state.value !== "here") return now;
    const { from, until, events } = this._deltas.value;
    return history.at(at, from <= at && at <= until ? events.filter((delta) => delta.seq <= at) : []);
  }

  /** The state of a fold at any seq, of the facts that are here. */
  foldAt(fold, seq) {
    return untracked(() => this._history(fold)).at(seq);
  }

  /** Look at the session as it was after an event; null for now. */
  lookAt(seq, { replace = true } = {}) {
    go({ ...route.value, sessionId: this.id, at: seq }, { replace });
  }

  _history(fold) {
    let history = this._histories.get(fold);
    if (!history) {
      history = untracked(() => new History(this.log, fold));
      this._histories.set(fold, history);
    }
    return history;
  }

  async _load() {
    // So that nothing stands under an id before its name is known, unless that takes long.
    const named = Promise.race([asked(), new Promise((late) => setTimeout(late, NAMED_WITHIN))]);
    try {
      this.row.value = await get(pathOf(this.id));
      if (this._closed) return;
      await this.log.open({
        onReady: () => {
          this.outbox.flush();
          if (this.moment.value > this.log.head.value) this.lookAt(null); // there was none such yet
        },
        onEnd: (why) => {
          if (why === "gone") this.state.value = "gone";
          else signedOut.value = true;
        },
      });
      if (this._closed) return;
      this.log.listen((event) => this._noted(event));
      for (const event of this.log.facts) this._receipt(event);
      await named;
      if (this._closed || this.state.value === "gone") return;
      this.state.value = "here";
      this.outbox.flush();
      await this._fetchDeltas(this.moment.value);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (this._closed) return;
      this.problem.value = error;
      this.state.value = error.status === 404 ? "gone" : "failed";
      if (error.mayPass) this._retry = setTimeout(() => this._load(), error.wait);
    }
  }

  _noted(event) {
    this._receipt(event);
    if (event.type === "session_deleted") this.state.value = "gone";
    if (event.type === "content_erased") this._forget(event);
    if (CHANGES_SESSION.has(event.type)) this._readRowIn(READ_AGAIN_AFTER);
  }

  _forget(erased) {
    this._deltas.value = NO_DELTAS;
    this._asking?.abort(); // its answer may be of before
    doing(() =>
      import("./erased.js").then(async ({ readErased }) => {
        await readErased(this.log, erased);
        await this._fetchDeltas(this.moment.value);
      }, notLoaded),
    );
  }

  _receipt(event) {
    if (event.type === "user_message_received") this.outbox.received(event.data.message_id);
  }

  _readRowIn(milliseconds) {
    this._reading ??= setTimeout(async () => {
      this._reading = null;
      try {
        const row = await get(pathOf(this.id));
        if (row.seq >= this.row.value.seq) this.row.value = row; // answers may overtake each other
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        if (error.mayPass && !this._closed) this._readRowIn(error.wait);
      }
    }, milliseconds);
  }

  /** The moment needs the facts before it, and the text of calls that were open then. */
  async _fetchDeltas(at) {
    if (at === null || untracked(() => this.state.value) !== "here") return;
    const has = (span) => span && span.from <= at && at <= span.until;
    const asking = new AbortController();
    try {
      if (at < this.log.from + 1) await this.log.reach(Math.max(0, at - 500));
      if (at !== untracked(() => this.moment.value) || has(untracked(() => this._deltas.value)) || has(this._asking)) return;
      const calls = this.log.callsAround(at);
      this._asking?.abort(); // a moment that nobody looks at any more
      const until = Math.min(calls.until, untracked(() => this.log.head.value)); // what comes later is not in the answer
      this._asking = Object.assign(asking, { from: calls.from, until });
      const deltas = await this.log.deltasOf(calls, asking.signal);
      const now = untracked(() => this.moment.value);
      if (now !== null && deltas.from <= now && now <= deltas.until) this._deltas.value = deltas;
    } catch (error) {
      if (asking.signal.aborted) return;
      if (!(error instanceof Problem)) throw error;
      complain(error.message);
    } finally {
      if (this._asking === asking) this._asking = null;
    }
  }

  _stopClock() {
    const at = this.moment.value;
    const { events: deltas } = this._deltas.value;
    const { facts, grown } = this.log;
    const fact = grown.value && at !== null ? facts[countUntil(facts, at) - 1] : null;
    const delta = at === null ? null : deltas.findLast(({ seq }) => seq <= at);
    stoppedAt.value = (delta && (!fact || delta.seq > fact.seq) ? delta : fact)?.at ?? null;
  }

  /** Whether a file of a name was uploaded, or came with a message, as far as events are here. */
  hasUpload(name) {
    return this.log.facts.some(({ type, data }) => (type === "file_uploaded" ? data.name === name : data.files?.includes(name)));
  }

  // What people do. Each gives whether it was done; what went wrong is shown.

  stop() {
    return doing(() => post(pathOf(this.id, "stop")));
  }

  switchProfile(profileId) {
    return doing(async () => {
      this.row.value = await patch(pathOf(this.id), { profile_id: profileId });
    });
  }

  decide(callId, decision) {
    return doing(() => post(pathOf(this.id, "approvals", callId), decision));
  }

  undoCompression(seq) {
    return doing(() => post(pathOf(this.id, "compress", "undo"), { compression_seq: seq }));
  }

  /**
   * Go on in a session of its own, with a message if there is one; one such at a time. `at` is a seq, or an item of
   * the conversation: it begins before a message, and after an answer.
   */
  async fork(at, message = null) {
    if (this._isForking) return false;
    this._isForking = true;
    return doing(() => import("./fork.js").then(({ fork }) => fork(this, at, message), notLoaded)).finally(() => {
      this._isForking = false;
    });
  }

  /** Say a message otherwise: in a fork from before it. */
  sayAgain(item, content) {
    return this.fork(item, { content, files: item.files });
  }

  /** Summarise what was said so far. */
  compress() {
    return doing(async () => {
      offer(t("compressing"));
      const { compressed } = await post(pathOf(this.id, "compress"), {}, { seconds: COMPRESSED_WITHIN });
      if (!compressed) offer(t("nothing-to-compress"));
    });
  }
}

/** Do something that navi may refuse; what it says is shown. Gives the result, true for none, or false. */
export async function doing(what) {
  try {
    return (await what()) ?? true;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    complain(error.message);
    return false;
  }
}

/** Open the session of the address anew, as after signing in. */
export function reopen() {
  const id = route.value.sessionId;
  current.value?.close();
  current.value = id === null ? null : new OpenSession(id);
}

// One session is open at a time: the one that the address names.
effect(() => {
  const id = route.value.sessionId;
  untracked(() => {
    if (current.value?.id !== id) reopen();
  });
});
effect(() => {
  if (signedOut.value) untracked(() => current.value?.close());
});
