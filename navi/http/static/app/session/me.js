// Who looks.

import { get, keepAsking, post, signedOut } from "../api.js";
import { batch, computed, signal } from "../html.js";
import { forgetPerson } from "../kept.js";
import { go } from "../router.js";
import { doing, reopen } from "./open_session.js";

/** What `GET /auth/me` gives: `{id, name, role, limits, auth_kind}`; null before the answer. */
export const me = signal(null);
export const isAdmin = computed(() => me.value?.role === "admin");
/** Whether there are accounts here. */
export const hasAccounts = computed(() => (me.value?.auth_kind ?? "none") !== "none");
/** Whether one can sign out. */
export const hasLogin = computed(() => me.value?.auth_kind === "login");

/** Somebody signed in: all is read anew, at the same place. */
export function signedIn() {
  batch(() => {
    signedOut.value = false;
    reopen();
  });
}

/** End the login; nothing of a person stays in this browser. */
export async function signOut() {
  if (!(await doing(() => post("/auth/logout")))) return;
  go({});
  forgetPerson();
  location.reload();
}

keepAsking(async () => {
  me.value = await get("/auth/me");
});
