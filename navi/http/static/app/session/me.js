// Who looks.

import { get, keepAsking, loginBegan, signedOut } from "../api.js";
import { batch, computed, signal } from "../html.js";
import { forgetPerson, keep, kept } from "../kept.js";
import { reopen } from "./open_session.js";

/** What `GET /auth/me` gives: `{id, name, role, limits, auth_kind}`; null before the answer. */
export const me = signal(null);
export const isAdmin = computed(() => me.value?.role === "admin");
/** Whether there are accounts here. */
export const hasAccounts = computed(() => (me.value?.auth_kind ?? "none") !== "none");
/** Whether one can sign out. */
export const hasLogin = computed(() => me.value?.auth_kind === "login");

/** Whether an open session is somebody else's: admins may read it, and nobody but its owner write to it. */
export function isForeign(session) {
  const owner = session.row.value?.owner;
  return owner !== undefined && owner !== me.value?.id;
}

/**
 * Somebody signed in: all is read anew, at the same place.
 *
 * @throws {Problem} it could not be read who it is.
 */
export async function signedIn() {
  await readMe(); // first, so that nobody is shown what another one has written
  loginBegan();
  batch(() => {
    signedOut.value = false;
    reopen();
  });
}

async function readMe() {
  const person = await get("/auth/me");
  if (kept("person", person.id) !== person.id || (me.value?.id ?? person.id) !== person.id) {
    // Whose login has ended left drafts behind, and more in the page's memory.
    forgetPerson();
    location.reload();
    return new Promise(() => {}); // it ends here
  }
  keep("person", person.id);
  me.value = person;
}

keepAsking(readMe);
