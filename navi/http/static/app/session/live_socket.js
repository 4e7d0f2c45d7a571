// A WebSocket on a session that comes back by itself, with the last seq that it has seen.

import { signal } from "../html.js";

const FIRST_WAIT = 250; // ms until the first try to come back; doubled up to
const LONGEST_WAIT = 10_000;
const PING_EVERY = 20_000; // a connection that is silently gone, after sleep for one, is noticed by this
const PONG_WITHIN = 10_000; // the first frame of a connection as well
const GONE = 4404;
const SIGNED_OUT = 4401;

/**
 * Follow a session.
 *
 * `after()` gives the seq from which to go on, `onEvent` takes each envelope, `onReady` the first frame of
 * a connection, `onEnd` a reason ("gone", "signed-out") after which it does not come back.
 *
 * A handshake that is refused looks to a browser like a server that is not there: `onShut()` asks in another
 * way, and gives whether somebody answered, and after how many seconds at the earliest to come again.
 */
export class LiveSocket {
  constructor(sessionId, { after, onEvent, onReady, onEnd, onShut }) {
    /** "connecting", "open", "waiting" (to try again), or "shut": only connections are refused. */
    this.state = signal("connecting");
    this._path = `/ws/sessions/${encodeURIComponent(sessionId)}`;
    this._hooks = { after, onEvent, onReady, onEnd, onShut };
    this._tries = 0;
    this._ended = false;
    this._wake = () => this._again();
    this._seen = () => document.visibilityState === "visible" && this._again();
    addEventListener("online", this._wake);
    addEventListener("pageshow", this._wake);
    document.addEventListener("visibilitychange", this._seen);
    this._connect();
  }

  /** Send a frame; false if there is no connection. */
  send(frame) {
    if (this._socket?.readyState !== WebSocket.OPEN) return false;
    this._socket.send(JSON.stringify(frame));
    return true;
  }

  close() {
    this._ended = true;
    removeEventListener("online", this._wake);
    removeEventListener("pageshow", this._wake);
    document.removeEventListener("visibilitychange", this._seen);
    this._forget();
  }

  _forget() {
    clearTimeout(this._timer);
    clearInterval(this._pings);
    clearTimeout(this._pong);
    const socket = this._socket;
    this._socket = null;
    if (socket) {
      socket.onopen = socket.onmessage = socket.onclose = null;
      socket.close();
    }
  }

  _connect() {
    this._forget();
    this._isReady = false;
    if (this.state.value !== "shut") this.state.value = "connecting";
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}${this._path}?after=${this._hooks.after()}`);
    this._socket = socket;
    socket.onmessage = (message) => this._take(JSON.parse(message.data));
    socket.onclose = (close) => this._closed(close.code);
    this._pings = setInterval(() => this._check(), PING_EVERY);
    this._pong = setTimeout(() => this._closed(1006), PONG_WITHIN);
  }

  /** Ask whether somebody is still there. */
  _check() {
    if (!this.send({ type: "ping" })) return;
    clearTimeout(this._pong);
    this._pong = setTimeout(() => this._closed(1006), PONG_WITHIN);
  }

  _take(frame) {
    clearTimeout(this._pong);
    if (frame.type === "pong") return;
    if (frame.type === "ready" && !("data" in frame)) {
      this._tries = 0;
      this._isReady = true;
      this.state.value = "open";
      this._hooks.onReady?.(frame);
    } else if ("seq" in frame) this._hooks.onEvent(frame); // an error is of a frame of ours: all we send is pings
  }

  _closed(code) {
    this._forget();
    if (this._ended) return;
    if (code === GONE || code === SIGNED_OUT) {
      this.close();
      this._hooks.onEnd?.(code === GONE ? "gone" : "signed-out");
      return;
    }
    if (this._isReady) this._later();
    else this._ask();
  }

  /** Come back in a while. */
  _later(seconds = 0, state = "waiting") {
    this.state.value = state;
    const wait = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** this._tries++) * (0.5 + Math.random() / 2);
    this._timer = setTimeout(() => this._connect(), Math.max(wait, seconds * 1000));
  }

  async _ask() {
    if (this.state.value !== "shut") this.state.value = "waiting";
    const asking = (this._asking = {});
    const { isThere, seconds } = await this._hooks.onShut();
    if (!this._ended && this._asking === asking && !this._socket) this._later(seconds, isThere ? "shut" : "waiting");
  }

  /** Something has changed: try now, or see whether the connection is still there. */
  _again() {
    if (this._ended) return;
    if (this._socket) {
      this._check();
      return;
    }
    this._tries = 0;
    this._connect();
  }
}
