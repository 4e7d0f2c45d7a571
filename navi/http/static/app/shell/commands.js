// What can be done from anywhere: by its keys, and from the palette.

import { notLoaded } from "../lazy.js";
import { THEMES, chooseTheme } from "../preferences.js";
import { VIEWS, go, route } from "../router.js";
import { hasLogin, isForeign } from "../session/me.js";
import { current } from "../session/open_session.js";
import { changeSession, leaving, sessions } from "../session/session_list.js";
import { signOut } from "../session/sign_out.js";
import { chooseLanguage, languages, t } from "../strings.js";
import { openPalette, openShortcuts } from "./dialogs.js";
import { openDrawer } from "./drawer.js";
import { placeName, placesOffered } from "./me_menu.js";
import { newSession } from "./new_session.js";
import { beginRenaming } from "./session_entry.js";
import { inOrder } from "./session_groups.js";

/** The commands that can be given now: `{id, name, run}`. */
export function commandsNow() {
  const { sessionId } = route.value;
  const row = sessions.value?.find(({ id }) => id === sessionId);
  const isOpen = current.value?.state.value === "here";
  const isRunning = isOpen && !isForeign(current.value) && current.value.row.value?.status === "running";
  const command = (id, run, name = t(id)) => ({ id, name, run });
  return [
    command("new-session", newSession),
    isRunning && command("stop", () => current.value.stop()),
    command("search-sessions", searchSessions),
    command("go-to-message", () => document.querySelector(".composer textarea")?.focus()),
    command("next-session", () => step(1)),
    command("previous-session", () => step(-1)),
    ...(isOpen ? VIEWS.map((view) => command(`view-${view}`, () => go({ ...route.value, view }), t("view", { name: t(`view-${view}`) }))) : []),
    row && command("rename", () => rename(row), t("rename-session")),
    row && command("pin", () => changeSession(row, { pinned: !row.pinned }), t(row.pinned ? "unpin-session" : "pin-session")),
    ...placesOffered().map((place) => command(`place-${place}`, () => go({ place }), placeName(place))),
    ...THEMES.map((theme) => command(`theme-${theme}`, () => chooseTheme(theme), t("theme-is", { name: t(`theme-${theme}`) }))),
    ...languages.map((name) => command(`language-${name}`, () => chooseLanguage(name).catch(notLoaded), t("language-is", { name: languageName(name) }))),
    command("commands", openPalette),
    command("shortcuts", openShortcuts),
    hasLogin.value && command("sign-out", signOut),
  ].filter(Boolean);
}

/** A language by its own name. */
export const languageName = (tag) => new Intl.DisplayNames([tag], { type: "language" }).of(tag);

function searchSessions() {
  openDrawer();
  setTimeout(() => document.querySelector(".sidebar [type=search]")?.focus());
}

function rename(row) {
  openDrawer();
  beginRenaming(row.id);
}

function step(by) {
  const rows = inOrder(sessions.value ?? []).filter(({ id }) => !leaving.value.has(id));
  if (!rows.length) return;
  const at = rows.findIndex(({ id }) => id === route.value.sessionId);
  const next = at < 0 ? (by > 0 ? 0 : rows.length - 1) : (at + by + rows.length) % rows.length;
  go({ sessionId: rows[next].id });
}
