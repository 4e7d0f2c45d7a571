// The sessions of whoever looks, read again and again: what is pinned, runs, waits or is new.

import { get, signedOut } from "../api.js";
import { effect, signal, untracked } from "../html.js";

const EVERY = 3000; // ms, while somebody looks
const UNSEEN = 30_000;
const MOST = 200;

/** What `GET /sessions` gives, or null before the first answer. */
export const sessions = signal(null);

let timer = null;
let reading = null;

/** Read the list now; what it shows is at most this old. */
export function readSessions() {
  reading ??= get(`/sessions?limit=${MOST}`)
    .then((answer) => {
      sessions.value = answer.sessions;
    })
    .catch(() => {}) // the next reading tells; what went wrong with the node is said where it is used
    .finally(() => {
      reading = null;
      plan();
    });
  return reading;
}

function plan() {
  clearTimeout(timer);
  if (!untracked(() => signedOut.value)) timer = setTimeout(readSessions, document.hidden ? UNSEEN : EVERY);
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) readSessions();
});
effect(() => {
  if (!signedOut.value) untracked(readSessions);
});
