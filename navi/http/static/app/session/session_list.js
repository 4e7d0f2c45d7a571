// The sessions of whoever looks, read again and again: what is pinned, runs, waits or is new.

import { Problem, get, getChanged, patch, pathOf, remove, signedOut } from "../api.js";
import { complain } from "../announce.js";
import { batch, effect, signal, untracked } from "../html.js";
import { t } from "../strings.js";
import { me } from "./me.js";
import { current, doing } from "./open_session.js";

const EVERY = 3000; // ms, while somebody looks
const UNSEEN = 30_000;
const PAGE = 100; // sessions of the top of the list, where everything new is
const FURTHER = 500; // sessions at a time of what is further down
const ASKED = 20; // sessions that left the top, at the most: where they are now
const UNDO_WITHIN = 6000; // ms between "Delete" and the deletion

/** What `GET /sessions` gives, as far down as it was read, or null before the first answer. */
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
let next = null; // the cursor of what is further down
let further = null;
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
  const found = await getChanged(`/sessions?limit=${PAGE}`, tag);
  if (!found.answer) return;
  tag = found.tag;
  const rows = found.answer.sessions;
  const last = rows.at(-1);
  const before = sessions.value;
  // So much happened that what is known of further down may have gaps: it is read again.
  const isNew = before?.find(({ id }) => id === last?.id)?.seq !== last?.seq;
  if (isNew || found.answer.next === null) next = found.answer.next;
  take(rows, found.answer.next === null);
  if (found.answer.next === null) return;
  if (before === null) readFurther();
  const ids = new Set(rows.map(({ id }) => id));
  const gone = before?.filter((row) => !ids.has(row.id) && byPlace(row, last) < 0) ?? [];
  for (const { id } of gone.slice(0, ASKED)) get(pathOf(id)).then(put, ({ status }) => status === 404 && drop(id));
}

/** Read on where the list ends by now: a page of it, or all that there is. */
export function readFurther(isAll) {
  const after = next;
  if (after === null) return;
  further ??= get(`/sessions?limit=${FURTHER}&after=${encodeURIComponent(after)}`)
    .then(
      (page) => {
        if (next !== after) return; // somebody else, or read from the top again
        next = page.next;
        take(page.sessions);
      },
      (error) => {
        if (!(error instanceof Problem)) throw error;
        isAll = false;
      },
    )
    .finally(() => {
      further = null;
      if (isAll) readFurther(true);
    });
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

// As navi orders them: of one moment, the higher id first.
const placeOf = (row) => `${+row.pinned}${row.last_active ?? row.created_at}${row.id}`;
const byPlace = (one, other) => (placeOf(one) < placeOf(other) ? 1 : -1);

const sorted = (rows) => rows.toSorted(byPlace);

/** Show what is known of a session by now. */
function put(row) {
  const rows = sessions.value;
  if (rows) show(sorted(rows.some(({ id }) => id === row.id) ? rows.map((old) => (old.id === row.id ? row : old)) : [row, ...rows]));
}

function drop(id) {
  if (sessions.value) show(sessions.value.filter((row) => row.id !== id));
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
    drop(id);
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
      tag = next = null;
    }
  });
});
// What is open is known as soon as it changes; an admin may have opened what is in the list of somebody else.
effect(() => {
  const row = current.value?.row.value;
  if (row && row.owner === me.value?.id) untracked(() => (sessions.value?.find(({ id }) => id === row.id)?.seq ?? 0) <= row.seq && put(row));
});
