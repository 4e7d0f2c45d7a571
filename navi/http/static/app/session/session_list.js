// The sessions of whoever looks, read again and again: what is pinned, runs, waits or is new.

import { Problem, getChanged, patch, pathOf, remove, signedOut } from "../api.js";
import { complain } from "../announce.js";
import { batch, effect, signal, untracked } from "../html.js";
import { t } from "../strings.js";
import { me } from "./me.js";
import { current, doing } from "./open_session.js";

const EVERY = 3000; // ms, while somebody looks
const UNSEEN = 30_000;
const PAGE = 100; // sessions of the top of the list, where everything new is
const ALL = 10_000;
const ALL_EVERY = 20; // readings: whatever changed further down
const UNDO_WITHIN = 6000; // ms between "Delete" and the deletion

/** What `GET /sessions` gives, all pages of it, or null before the first answer. */
export const sessions = signal(null);
/** Whether navi answered when the list was last read. */
export const reached = signal(true);
/** The ids of sessions that will be deleted unless somebody wants them back. */
export const leaving = signal(new Set());

/** Whether a session waits for a person to decide. */
export const waits = (session) => session.waiting.length > 0;

let timer = null;
let reading = null;
let tag = null; // of the page that was read last
let count = 0;
let changing = Promise.resolve();
const departures = new Map(); // session id: the timer of its deletion

/** Read the list now; what it shows is at most this old. */
export function readSessions() {
  reading ??= read()
    .then(
      () => {
        reached.value = true;
      },
      (error) => {
        if (!(error instanceof Problem)) throw error;
        reached.value = !error.mayPass || error.status === 429;
      },
    )
    .finally(() => {
      reading = null;
      clearTimeout(timer);
      if (!untracked(() => signedOut.value)) timer = setTimeout(readSessions, document.hidden ? UNSEEN : EVERY);
    });
  return reading;
}

async function read() {
  const wantsAll = sessions.value === null || ++count % ALL_EVERY === 0;
  const found = await getChanged(`/sessions?limit=${PAGE}`, wantsAll ? null : tag);
  if (!found.answer) return;
  tag = found.tag;
  let { sessions: rows, next } = found.answer;
  if (next !== null && wantsAll) {
    const rest = await getChanged(`/sessions?limit=${ALL}&after=${encodeURIComponent(next)}`);
    rows = [...rows, ...rest.answer.sessions];
    next = null;
  }
  take(rows, next === null);
}

// A session that has not changed stays the same object, so that nothing is drawn again.
function take(rows, isAll) {
  const before = new Map(sessions.value?.map((row) => [row.id, row]));
  const fresh = rows.map((row) => (before.get(row.id)?.seq >= row.seq ? before.get(row.id) : row));
  const ids = new Set(rows.map((row) => row.id));
  const others = isAll ? [] : (sessions.value ?? []).filter((row) => !ids.has(row.id));
  show(others.length ? sorted([...fresh, ...others]) : fresh);
}

function show(rows) {
  const before = sessions.value;
  if (before?.length !== rows.length || rows.some((row, index) => row !== before[index])) sessions.value = rows;
}

function sorted(rows) {
  const active = (row) => row.last_active ?? row.created_at ?? "";
  return rows.toSorted((one, other) => {
    if (one.pinned !== other.pinned) return one.pinned ? -1 : 1;
    return active(one) < active(other) ? 1 : active(one) > active(other) ? -1 : 0;
  });
}

/** Show what is known of a session by now. */
function put(row) {
  const rows = sessions.value;
  if (rows) show(sorted(rows.some(({ id }) => id === row.id) ? rows.map((old) => (old.id === row.id ? row : old)) : [row, ...rows]));
}

/** Change the name of a session, or whether it is pinned; shown at once. Gives what it is then, or false. */
export async function changeSession(row, change) {
  put({ ...row, ...change });
  // One after the other: what was asked for last counts.
  const mine = (changing = changing.then(() => doing(() => patch(pathOf(row.id), change))));
  const made = await mine;
  if (!made) {
    // What it was before may itself have been asked for in vain: the next reading knows.
    tag = null;
    put({ ...row, seq: 0 });
  } else if (mine === changing) put(made);
  readSessions();
  return made;
}

/** Delete a session in a moment, so that it can be had back until then. */
export function deleteSession(id) {
  departures.set(id, setTimeout(() => depart(id), UNDO_WITHIN));
  leaving.value = new Set(departures.keys());
}

export function keepSession(id) {
  clearTimeout(departures.get(id));
  departures.delete(id);
  leaving.value = new Set(departures.keys());
}

/** Delete at once what is to be deleted in a moment; gives whether all of it is gone. */
export async function departNow() {
  return (await Promise.all([...departures.keys()].map(depart))).every(Boolean);
}

// Gives whether it is gone.
async function depart(id) {
  clearTimeout(departures.get(id));
  try {
    await remove(pathOf(id));
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status !== 404) {
      keepSession(id);
      complain(t("not-deleted", { why: error.message }));
      return false;
    }
  }
  batch(() => {
    if (sessions.value) show(sessions.value.filter((row) => row.id !== id));
    keepSession(id);
  });
  return true;
}

// Who closes the page has made up their mind.
addEventListener("pagehide", () => {
  for (const id of departures.keys()) fetch(pathOf(id), { method: "DELETE", keepalive: true }).catch(() => {});
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) readSessions();
});
effect(() => {
  const isOut = signedOut.value;
  untracked(() => {
    if (!isOut) readSessions();
    else {
      sessions.value = null; // the next one to sign in may be somebody else
      tag = null;
    }
  });
});
// What is open is known as soon as it changes; an admin may have opened what is in the list of somebody else.
effect(() => {
  const row = current.value?.row.value;
  if (row && row.owner === me.value?.id) untracked(() => (sessions.value?.find(({ id }) => id === row.id)?.seq ?? 0) <= row.seq && put(row));
});
