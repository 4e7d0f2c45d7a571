// A fold of a session's events, now and at any moment before.
//
// `fold` is `{initial(), apply(state, event)}`; states are never changed, so a state that was reached is
// kept by keeping it, and going back to a moment costs the events since the last one kept.

import { effect, signal, untracked } from "../html.js";
import { isDelta } from "./event_log.js";

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
    let index = Math.min(this._kept.length - 1, Math.floor(countUntil(facts, seq) / KEPT_EVERY));
    let state = this._kept[index];
    for (index *= KEPT_EVERY; index < facts.length && facts[index].seq <= seq; index++) {
      state = this._fold.apply(state, facts[index]);
    }
    return deltas.reduce((before, delta) => this._fold.apply(before, delta), state);
  }

  _refold() {
    this._state = this._settled = this._fold.initial();
    this._kept = [this._settled];
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
