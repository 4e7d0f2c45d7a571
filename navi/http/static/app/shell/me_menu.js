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
import { hasAccounts, hasLogin, isAdmin, me, signOut } from "../session/me.js";
import { t } from "../strings.js";
import { openPalette, openShortcuts } from "./dialogs.js";

const ICONS = {
  usage: UsageIcon,
  memories: MemoriesIcon,
  health: HealthIcon,
  users: UsersIcon,
  audit: AuditIcon,
  settings: SettingsIcon,
};
const FOR_ADMINS = ["users", "audit"];

/** The places that whoever looks may go to, in the order of the menu. */
export function placesOffered() {
  return Object.keys(ICONS).filter((name) => !FOR_ADMINS.includes(name) || (isAdmin.value && hasAccounts.value));
}

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
            <${ICONS[place]} />${t(`place-${place}`)}
          </a>
        `;
      })}
      <hr />
      ${entry(t("commands"), CommandsIcon, openPalette, "Ctrl K")}
      ${entry(t("shortcuts"), KeyboardIcon, openShortcuts, "?")}
      ${hasLogin.value && entry(t("sign-out"), SignOutIcon, signOut)}
    </div>
  `;
}
