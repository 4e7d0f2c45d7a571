// Messages on their way: written down before they are sent, and taken out when their receipt stands in the
// log. A page that is closed, or a node that dies, in between sends them again, under the same id; navi
// takes a message of one id once.

import { Problem, pathOf, post } from "../api.js";
import { complain } from "../announce.js";
import { signal } from "../html.js";
import { keep, kept } from "../kept.js";
import { t } from "../strings.js";

const WAIT = 1000; // ms before another try, unless navi says otherwise

export class Outbox {
  constructor(sessionId) {
    this._sessionId = sessionId;
    this._name = `outbox.${sessionId}`;
    /** Messages without a receipt: `{message_id, content, files, mode}`, oldest first. */
    this.messages = signal(kept(this._name, []));
    this._sending = null;
    this._accepted = new Set(); // ids that navi has, and whose receipt has not come here yet
  }

  close() {
    clearTimeout(this._timer);
    this._closed = true;
  }

  /** Send a message; it stands in `messages` until navi has it. */
  send({ content, files = [], mode = "queue" }) {
    const message = { message_id: crypto.randomUUID(), content, files, mode };
    this._set([...this.messages.value, message]);
    this.flush();
  }

  /** A receipt stands in the log. */
  received(messageId) {
    if (this.messages.value.some((message) => message.message_id === messageId)) {
      this._set(this.messages.value.filter((message) => message.message_id !== messageId));
    }
  }

  /** Send what is there, in order. */
  flush() {
    this._sending ??= this._sendAll().finally(() => {
      this._sending = null;
    });
  }

  async _sendAll() {
    for (;;) {
      const message = this.messages.value.find(({ message_id: id }) => !this._accepted.has(id));
      if (!message || this._closed) return;
      try {
        await post(`${pathOf(this._sessionId, "messages")}?wait=false`, message);
        this._accepted.add(message.message_id);
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        if (error.status === 401) return; // kept until somebody has signed in
        if (error.mayPass) {
          this._timer = setTimeout(() => this.flush(), (error.retryAfter ?? 0) * 1000 || WAIT);
          if (error.status === 429) complain(error.message);
          return;
        }
        // Refused for good: the words go back to where they can be changed.
        this._set(this.messages.value.filter((other) => other !== message));
        this.returned.value = message;
        complain(t("not-sent", { why: error.message }));
      }
    }
  }

  /** A message that navi refused, for the input to show again. */
  returned = signal(null);

  _set(messages) {
    this.messages.value = messages;
    keep(this._name, messages.length ? messages : null);
  }

  /** Send a message to a session that is not open here; where nobody answers it is sent once it is open. */
  static async send(sessionId, { content, files = [] }) {
    const message = { message_id: crypto.randomUUID(), content, files, mode: "queue" };
    const name = `outbox.${sessionId}`;
    keep(name, [...kept(name, []), message]);
    try {
      await post(`${pathOf(sessionId, "messages")}?wait=false`, message);
    } catch (error) {
      const isKept = kept(name, []).some(({ message_id: id }) => id === message.message_id);
      if (error instanceof Problem && error.mayPass && isKept) return;
      keep(name, kept(name, []).filter(({ message_id: id }) => id !== message.message_id));
      throw error;
    }
  }
}
