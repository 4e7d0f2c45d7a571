// Whether navi can be reached, said above everything as long as it cannot.

import { AlertIcon, OfflineIcon } from "../icons.js";
import { computed, html, signal, useEffect, useState } from "../html.js";
import { current } from "../session/open_session.js";
import { reached, readSessions } from "../session/session_list.js";
import { t } from "../strings.js";

const AFTER = 2000; // ms: a connection that comes back by then is nobody's concern

const online = signal(navigator.onLine);
addEventListener("online", () => {
  online.value = true;
  readSessions();
});
addEventListener("offline", () => {
  online.value = false;
});

/** Whether what happens in the open session comes here. */
export const isLive = computed(() => {
  const session = current.value;
  if (!online.value || !reached.value) return false;
  return session?.state.value !== "here" || ["open", "shut"].includes(session.log.socket?.state.value ?? "open");
});
const isShut = computed(() => isLive.value && current.value?.log.socket?.state.value === "shut");

export function Connection() {
  const [isLong, setLong] = useState(false);
  const isGone = !isLive.value;
  useEffect(() => {
    setLong(false);
    if (!isGone) return;
    const timer = setTimeout(() => setLong(true), online.value ? AFTER : 0);
    return () => clearTimeout(timer);
  }, [isGone, online.value]);
  if (isShut.value) return html`<div class="connection" role="note"><${AlertIcon} /><span>${t("shut")}</span></div>`;
  if (!isGone || !isLong) return null;
  const [icon, text] = online.value ? [AlertIcon, t("away")] : [OfflineIcon, t("offline")];
  return html`
    <div class="connection" role="alert">
      <${icon} />
      <span>${text}</span>
      ${online.value && html`<button onClick=${readSessions}>${t("try-now")}</button>`}
    </div>
  `;
}
