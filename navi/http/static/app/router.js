// Where the page is: `/`, `/setup`, or `/s/{session}?at=N&view=timeline#SEQ`. The address says it all, so that
// it can be sent to somebody, opened in another tab and gone back from.

import { signal } from "./html.js";

export const VIEWS = ["chat", "timeline", "context", "events"];
/** Pages that are not about one session. */
export const PLACES = ["usage", "memories", "health", "users", "audit", "settings"];

const NEW = "/";

const WRITTEN_WITHIN = 250; // ms: browsers refuse addresses that change more often than a few times a second

let address = shownAddress();
let writing = null;

/** That of the browser; a fragment is a seq, or none of the router's business. */
function shownAddress() {
  return location.pathname + location.search + (/^#\d+$/.test(location.hash) ? location.hash : "");
}

/** Part of an address, as it is where it cannot be decoded: there is no such session then. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function read() {
  const { pathname, searchParams, hash } = new URL(location.origin + address);
  const parts = pathname.split("/");
  const at = searchParams.get("at");
  const view = searchParams.get("view");
  const place = searchParams.get("show");
  return {
    setup: pathname === "/setup",
    sessionId: parts[1] === "s" ? decoded(parts[2] ?? "") || null : null,
    at: at !== null && /^\d{1,16}$/.test(at) ? Number(at) : null,
    view: VIEWS.includes(view) ? view : "chat",
    seq: /^#\d{1,16}$/.test(hash) ? Number(hash.slice(1)) : null,
    place: PLACES.includes(place) ? place : null,
    compare: searchParams.get("compare"),
  };
}

/**
 * `{setup, sessionId, at, view, seq, place, compare}`; `at` is a seq or null for now, `seq` that of the
 * message that is meant or null, `place` one of PLACES or null, `compare` what the moment is compared with,
 * or null.
 */
export const route = signal(read());

/** Raised when a link leads to a message, be it the one of the address: it is looked at again. */
export const led = signal(0);

addEventListener("popstate", () => {
  clearTimeout(writing);
  writing = null;
  address = shownAddress();
  route.value = read();
});

/** The address of a place; what is not named is as at first. */
export function addressOf({ sessionId = null, at = null, view = "chat", seq = null, place = null, compare = null }) {
  const query = new URLSearchParams();
  if (place !== null) query.set("show", place);
  if (view !== "chat") query.set("view", view);
  if (at !== null) query.set("at", String(at));
  if (compare !== null) query.set("compare", compare);
  const path = sessionId === null ? NEW : `/s/${encodeURIComponent(sessionId)}`;
  return path + (query.size ? `?${query}` : "") + (seq === null ? "" : `#${seq}`);
}

/** Go to a place; `replace` leaves no step to go back to, as for a slider that is being dragged. */
export function go(place, { replace = false } = {}) {
  const next = addressOf(place);
  if (next !== address) {
    address = next;
    if (replace) writing ??= setTimeout(write, WRITTEN_WITHIN);
    else {
      // Where one went back to is where one last was.
      if (writing !== null) history.replaceState(null, "", addressOf(route.value));
      clearTimeout(writing);
      writing = null;
      history.pushState(null, "", address);
    }
  }
  route.value = read();
}

function write() {
  writing = null;
  history.replaceState(null, "", address);
}

/** The click of a link within the page, if it is a plain one. */
export function follow(event, place) {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  go(place);
  if (place.seq) led.value++;
}
