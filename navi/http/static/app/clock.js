// How late it is at navi, whose times stand in the events: clocks of browsers may be minutes off.

import { useEffect, useState } from "./html.js";

const ROUNDED = 2000; // ms that a header's whole seconds and the way here may make

let ahead = 0; // ms that navi's clock is ahead of the browser's

/** Take in the header `Date` of an answer. */
export function heardAt(date) {
  const difference = Date.parse(date) - Date.now();
  ahead = Math.abs(difference) > ROUNDED ? difference : 0;
}

/** Milliseconds since a moment at navi, by the second, while `isTicking`. */
export function useElapsed(since, isTicking = true) {
  const [, setTick] = useState(0);
  useEffect(() => {
    if (!isTicking) return undefined;
    const timer = setInterval(() => setTick((tick) => tick + 1), 1000);
    return () => clearInterval(timer);
  }, [isTicking]);
  return Math.max(0, Date.now() + ahead - Date.parse(since));
}
