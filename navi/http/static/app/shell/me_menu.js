// Who looks, and the ways to what is not about one session.

import {
  AuditIcon,
  CommandsIcon,
  HealthIcon,
  KeyboardIcon,
  MemoriesIcon,
  PersonIcon,
  SettingsIcon,
  SignOutIcon,
  UsageIcon,
  UsersIcon,
} from "../icons.js";
import { html, useRef, useState } from "../html.js";
import { addressOf, follow, route } from "../router.js";
import { hasAccounts, hasLogin, isAdmin, me } from "../session/me.js";
import { signOut } from "../session/sign_out.js";
import { t } from "../strings.js";
import { keysOf } from "./keys.js";
import { openPalette, openShortcuts } from "./dialogs.js";

const ICONS = {
  usage: UsageIcon,
  memories: MemoriesIcon,
  health: HealthIcon,
  users: UsersIcon,
  audit: AuditIcon,
  settings: SettingsIcon,
};

/** The places that whoever looks may go to, in the order of the menu. */
export function placesOffered() {
  // Everybody has tokens and a password there; only admins see the others, and what they did.
  const isOffered = { users: hasAccounts.value, audit: hasAccounts.value && isAdmin.value };
  return Object.keys(ICONS).filter((name) => isOffered[name] ?? true);
}

/** What a place is called to whoever looks. */
export const placeName = (name) => t(name === "users" && !isAdmin.value ? "place-account" : `place-${name}`);

export function Me() {
  const menu = useRef();
  const [isOpen, setOpen] = useState(false);
  const close = () => menu.current.hidePopover();
  const name = hasAccounts.value ? me.value.name : t("menu");
  const entry = (title, icon, run, keys) => html`
    <button class="plain" onClick=${() => (close(), run())}><${icon} />${title}${keys && html`<kbd>${keys}</kbd>`}</button>
  `;
  return html`
    <button class="plain me" popovertarget="me" aria-expanded=${isOpen}><${PersonIcon} /><span dir="auto">${name}</span></button>
    <div
      id="me"
      popover="auto"
      ref=${menu}
      role="group"
      aria-label=${t("menu")}
      onToggle=${({ newState }) => setOpen(newState === "open")}
    >
      ${placesOffered().map((place) => {
        const isHere = route.value.place === place;
        return html`
          <a
            class="button plain"
            href=${addressOf({ place })}
            aria-current=${isHere ? "page" : undefined}
            onClick=${(event) => (close(), follow(event, { place }))}
          >
            <${ICONS[place]} />${placeName(place)}
          </a>
        `;
      })}
      <hr />
      ${entry(t("commands"), CommandsIcon, openPalette, keysOf("commands").join(" "))}
      ${entry(t("shortcuts"), KeyboardIcon, openShortcuts, "?")}
      ${hasLogin.value && entry(t("sign-out"), SignOutIcon, signOut)}
    </div>
  `;
}
