// Messages on their way: written down before they are sent, and taken out when their receipt stands in the
// log. A page that is closed, or a node that dies, in between sends them again, under the same id; navi
// takes a message of one id once.
//
// Each has a place of its own among what the browser keeps, so that tabs do not write over each other's. All
// tabs of a session have all of its messages: where the one that sends is closed, another one sends.

import { Problem, pathOf, post, remove } from "../api.js";
import { complain } from "../announce.js";
import { effect, signal } from "../html.js";
import { newId } from "../ids.js";
import { keep, kept, keptNames, onKeptElsewhere } from "../kept.js";
import { t } from "../strings.js";

const WAIT = 1000; // ms before another try, unless navi says otherwise
const OTHERS_FIRST = 3000; // ms in which the tab that a message was written in sends it
const NOT_SIGNED_IN = 401;

const placeOf = (sessionId, messageId = "") => `outbox.${sessionId}.${messageId}`;

function newMessage({ content, files = [], mode = "queue" }, after = 0) {
  return { message_id: newId(), content, files, mode, at: Math.max(Date.now(), after + 1) };
}

/** Send it; gives the seq of its receipt. */
async function deliver(sessionId, { message_id, content, files, mode }) {
  const body = { message_id, content, files, mode };
  return (await post(`${pathOf(sessionId, "messages")}?wait=false`, body)).seq;
}

/** Whether it is sent again: later, or after signing in. */
const staysToBeSent = (error) => error.mayPass || error.status === NOT_SIGNED_IN;

/** Do something in a session that was just made; where it is refused, the session goes again. */
export async function inNew(sessionId, work) {
  try {
    await work();
  } catch (error) {
    await remove(pathOf(sessionId)).catch(() => {});
    throw error;
  }
}

export class Outbox {
  /** `hasSeen(seq)`: whether the event of a seq has come here. */
  constructor(sessionId, hasSeen) {
    this._sessionId = sessionId;
    this._hasSeen = hasSeen;
    /** Messages without a receipt: `{message_id, content, files, mode}`, oldest first. */
    this.messages = signal([]);
    /** A message that navi refused, for the input to show again; it sets this to null when it has. */
    this.returned = signal(kept(`returned.${sessionId}`));
    this._isSending = false;
    this._accepted = new Map(); // id: the seq of a receipt that has not come here yet
    this._gather();
    this._stop = [
      effect(() => keep(`returned.${sessionId}`, this.returned.value)),
      onKeptElsewhere((name) => this._changedElsewhere(name)),
    ];
  }

  close() {
    clearTimeout(this._timer);
    clearTimeout(this._helping);
    for (const stop of this._stop) stop();
    this._closed = true;
  }

  /** Send a message; it stands in `messages` until navi has it. */
  send(said) {
    const message = newMessage(said, this.messages.value.at(-1)?.at);
    keep(placeOf(this._sessionId, message.message_id), message);
    this.messages.value = [...this.messages.value, message];
    this.flush();
  }

  /** A receipt stands in the log. */
  received(messageId) {
    if (!this.messages.value.some((message) => message.message_id === messageId)) return;
    keep(placeOf(this._sessionId, messageId), null);
    this._drop(messageId);
  }

  /** Send what is there, in order. */
  async flush() {
    if (this._isSending) return;
    this._isSending = true;
    try {
      await this._sendAll();
    } finally {
      this._isSending = false;
    }
  }

  async _sendAll() {
    for (;;) {
      for (const [id, seq] of this._accepted) if (this._hasSeen(seq)) this.received(id);
      const message = this.messages.value.find(({ message_id: id }) => !this._accepted.has(id));
      if (!message || this._closed) return;
      try {
        this._accepted.set(message.message_id, await deliver(this._sessionId, message));
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        if (this._closed) return; // the next one that opens sends it again, and shows what navi says
        if (staysToBeSent(error)) {
          if (error.mayPass) this._timer = setTimeout(() => this.flush(), (error.retryAfter ?? 0) * 1000 || WAIT);
          if (error.status === 429) complain(error.message);
          return;
        }
        this._giveBack(message);
        complain(t("not-sent", { why: error.message }));
      }
    }
  }

  // Refused for good: the words go back to where they can be changed.
  _giveBack(message) {
    const before = this.returned.value;
    this.returned.value = before
      ? { content: `${before.content}\n\n${message.content}`, files: [...before.files, ...message.files] }
      : message;
    this.received(message.message_id);
  }

  _changedElsewhere(name) {
    if (!name.startsWith(placeOf(this._sessionId))) return;
    if (kept(name) === null) this._drop(name.slice(placeOf(this._sessionId).length));
    else {
      this._gather();
      clearTimeout(this._helping);
      this._helping = setTimeout(() => this.flush(), OTHERS_FIRST);
    }
  }

  _gather() {
    const all = keptNames(placeOf(this._sessionId)).map((name) => kept(name));
    this.messages.value = all.filter((message) => message !== null).sort((one, other) => one.at - other.at);
  }

  _drop(messageId) {
    this._accepted.delete(messageId);
    this.messages.value = this.messages.value.filter((message) => message.message_id !== messageId);
  }

  /** Send a message to a session that is not open here; what nobody answers is sent once it is open. */
  static async send(sessionId, said) {
    const message = newMessage(said);
    const place = placeOf(sessionId, message.message_id);
    keep(place, message);
    try {
      await deliver(sessionId, message);
    } catch (error) {
      if (error instanceof Problem && staysToBeSent(error)) return;
      keep(place, null);
      throw error;
    }
    keep(place, null);
  }

  /** Send what is left of all sessions, in order, be it on its way; gives the `Problem` of what cannot be, or null. */
  static async sendAll() {
    const all = keptNames("outbox.").map((name) => ({ ...kept(name), sessionId: name.split(".")[1] }));
    const left = all.filter((message) => message.message_id).sort((one, other) => one.at - other.at);
    const stuck = new Map(); // the problem, by the session in which nothing more can be sent
    for (const { sessionId, ...message } of left) {
      if (stuck.has(sessionId)) continue;
      try {
        await deliver(sessionId, message);
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        if (error.status === 404) keep(placeOf(sessionId, message.message_id), null); // deleted since
        else stuck.set(sessionId, error);
      }
    }
    return stuck.values().next().value ?? null;
  }
}
