// How far this browser has seen each session, so that the list can say what is new.

import { computed, effect, signal, untracked } from "../html.js";
import { keep, kept } from "../kept.js";
import { current } from "./open_session.js";
import { sessions } from "./session_list.js";

const NAME = "seen";
const MOST = 2000; // sessions; those seen longest ago are forgotten first
const AFTER = 1000; // ms, so that text that streams costs one writing a second

// `{since, seqs: {id: seq}}`: what was last active before `since`, when this browser first came, is not new.
const seen = signal(kept(NAME));
const isVisible = signal(!document.hidden);

/** The id of the session that somebody looks at now, or null. */
export const watched = computed(() => (isVisible.value ? (current.value?.id ?? null) : null));

/** Whether something happened in a session since it was last looked at here. */
export function isUnread(session, { since, seqs } = seen.value ?? { since: "", seqs: {} }) {
  if (Object.hasOwn(seqs, session.id)) return session.seq > seqs[session.id];
  return (session.last_active ?? "") > since;
}

/** Take a session as seen up to a seq. */
export function see(id, seq) {
  const { since, seqs } = seen.value ?? { since: "", seqs: {} };
  if (seqs[id] >= seq) return;
  const { [id]: _, ...others } = seqs;
  const entries = Object.entries(others);
  if (entries.length >= MOST) entries.splice(0, entries.length - MOST + 1);
  seen.value = { since, seqs: { ...Object.fromEntries(entries), [id]: seq } };
  keep(NAME, seen.value);
}

document.addEventListener("visibilitychange", () => {
  isVisible.value = !document.hidden;
});
addEventListener("storage", ({ key }) => {
  if (key === `navi.${NAME}`) seen.value = kept(NAME);
});

effect(() => {
  const rows = sessions.value;
  if (rows === null) return;
  untracked(() => {
    if (seen.value !== null) return;
    const since = rows.reduce((newest, { last_active: at }) => (at > newest ? at : newest), "");
    seen.value = { since, seqs: {} };
    keep(NAME, seen.value);
  });
});

let timer = null;

/** Write down how far the session that is looked at was seen. */
function note() {
  clearTimeout(timer);
  timer = null;
  untracked(() => {
    const session = current.value;
    if (session?.state.value === "here") see(session.id, session.log.head.value);
  });
}

effect(() => {
  const session = current.value;
  if (!isVisible.value || session?.state.value !== "here") return;
  const seq = session.log.head.value;
  if (untracked(() => seen.value?.seqs[session.id] === undefined)) note();
  else if (seq) timer ??= setTimeout(note, AFTER);
});
// Whoever goes on to another session, or away, has seen what was there.
let before = null;
effect(() => {
  const session = current.value;
  if (before && before !== session && before.state.peek() === "here") see(before.id, before.log.head.peek());
  before = session;
});
addEventListener("pagehide", () => isVisible.peek() && note());
