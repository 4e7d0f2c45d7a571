// A fold of a session's events, now and at any moment before.
//
// `fold` is `{initial(), apply(state, event)}`; states are never changed, so a state that was reached is
// kept by keeping it, and going back to a moment costs the events since the last one kept.

import { effect, signal, untracked } from "../html.js";
import { countUntil, isDelta } from "./event_log.js";

const KEPT_EVERY = 250; // facts

export class History {
  constructor(log, fold) {
    this._log = log;
    this._fold = fold;
    /** The state now: a signal, set at most once a frame however fast events come. */
    this.now = signal(null);
    this._refold();
    this._stop = [
      log.listen((event) => {
        this._step(event);
        this._show();
      }),
      effect(() => {
        if (log.grown.value) untracked(() => this._refold());
      }),
    ];
  }

  close() {
    for (const stop of this._stop) stop();
    cancelAnimationFrame(this._frame);
    clearTimeout(this._timer);
  }

  /** The state after the facts up to a seq, and these deltas. */
  at(seq, deltas = []) {
    const facts = this._log.facts;
    const count = countUntil(facts, seq);
    // Looked at one after the other, moments share all that was there before.
    let { count: reached, state } = this._looked;
    const kept = Math.min(this._kept.length - 1, Math.floor(count / KEPT_EVERY));
    if (reached > count || reached < kept * KEPT_EVERY) {
      reached = kept * KEPT_EVERY;
      state = this._kept[kept];
    }
    for (; reached < count; reached++) state = this._fold.apply(state, facts[reached]);
    this._looked = { count, state };
    return deltas.reduce((before, delta) => this._fold.apply(before, delta), state);
  }

  _refold() {
    this._state = this._settled = this._fold.initial();
    this._kept = [this._settled];
    this._looked = { count: 0, state: this._settled };
    this._count = 0;
    for (const event of this._log.facts) this._settle(event);
    this._state = this._log.deltas.reduce((state, delta) => this._fold.apply(state, delta), this._settled);
    this.now.value = this._state;
  }

  _step(event) {
    this._state = this._fold.apply(this._state, event);
    if (!isDelta(event)) this._settle(event);
  }

  // States that are kept are of facts alone: `at` is given the text of calls that are open.
  _settle(event) {
    this._settled = this._fold.apply(this._settled, event);
    this._count += 1;
    if (this._count % KEPT_EVERY === 0) this._kept.push(this._settled);
  }

  _show() {
    if (this._frame || this._timer) return;
    const show = () => {
      cancelAnimationFrame(this._frame);
      clearTimeout(this._timer);
      this._frame = this._timer = null;
      this.now.value = this._state;
    };
    this._frame = requestAnimationFrame(show);
    this._timer = setTimeout(show, 200); // a page in the background draws no frames
  }
}
