// How long something took, or takes: by the second while it goes on.

import { useElapsed } from "../clock.js";
import { html } from "../html.js";
import { duration } from "../strings.js";

export function Elapsed({ from, milliseconds = null }) {
  const isOver = milliseconds !== null;
  const elapsed = useElapsed(from, !isOver);
  return html`<span class="time">${isOver ? duration(milliseconds) : wholeSeconds(elapsed)}</span>`;
}

/** A time that runs, in whole seconds; nothing in the first. */
export function wholeSeconds(elapsed) {
  return elapsed < 1000 ? "" : duration(elapsed - (elapsed % 1000));
}
