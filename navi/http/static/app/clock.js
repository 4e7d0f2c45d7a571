// How late it is at navi, whose times stand in the events: clocks of browsers may be minutes off.

import { signal, useEffect, useState } from "./html.js";

const EXACT = 2000; // ms that a header, written once in a second, may be old, and a second be long

let ahead = 0; // ms that navi's clock is ahead of the browser's

/** When the event happened that is looked at; null for now. At a moment of the past no time runs. */
export const stoppedAt = signal(null);

/** Take in the header `Date` of an answer to what was asked at a time of the browser's clock. */
export function heardAt(date, askedAt) {
  ahead = aheadBy(Date.parse(date), askedAt, Date.now()) || 0;
}

/**
 * How far navi's clock is ahead, by what it showed between two times of the browser's clock.
 *
 * As long as it may be that both clocks agree, they do, however slow the answer was.
 */
export function aheadBy(shown, from, until) {
  if (shown > until) return shown - until;
  return Math.min(0, shown + EXACT - from);
}

/** Milliseconds from a moment at navi to the one that is looked at; until now, by the second, while `isTicking`. */
export function useElapsed(since, isTicking = true) {
  const [, setTick] = useState(0);
  useEffect(() => {
    if (!isTicking) return undefined;
    const timer = setInterval(() => setTick((tick) => tick + 1), 1000);
    return () => clearInterval(timer);
  }, [isTicking]);
  const until = stoppedAt.value === null ? Date.now() + ahead : Date.parse(stoppedAt.value);
  return Math.max(0, until - Date.parse(since));
}
