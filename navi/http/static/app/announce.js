// What screen readers are told, and what went wrong: one line each, never the text that streams.

import { signal } from "./html.js";

/** What goes on, in one line; read out politely. */
export const status = signal("");
/** What went wrong and what one can do: `{text, actions: [{name, run}]}`, or null; read out at once. */
export const trouble = signal(null);

const SECONDS = 12;
let timer = null;

/** Show what went wrong; it stays until it is closed, or something else goes wrong. */
export function complain(text, ...actions) {
  clearTimeout(timer);
  trouble.value = { text, actions };
}

/** Show for a while what is no trouble. */
export function offer(text) {
  clearTimeout(timer);
  const shown = { text, actions: [], mild: true };
  status.value = text;
  trouble.value = shown;
  timer = setTimeout(() => {
    if (trouble.value === shown) trouble.value = null;
  }, SECONDS * 1000);
}

export function close() {
  trouble.value = null;
}
