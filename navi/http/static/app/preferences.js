// What was chosen on this device: the theme, and what keys do.

import { signal } from "./html.js";
import { keep, kept } from "./kept.js";

export const THEMES = ["system", "light", "dark"];

/** "system", "light" or "dark". */
export const theme = signal(THEMES.includes(kept("theme")) ? kept("theme") : "system");
/** Whether Enter sends a message; else Ctrl Enter does. */
export const enterSends = signal(kept("enter-sends", true));
/** Whether keys without a field do something. */
export const shortcuts = signal(kept("shortcuts", true));

export function chooseTheme(name) {
  theme.value = name;
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  keep("theme", name === "system" ? null : name);
}

export function chooseEnterSends(isSo) {
  enterSends.value = isSo;
  keep("enter-sends", isSo ? null : false);
}

export function chooseShortcuts(isOn) {
  shortcuts.value = isOn;
  keep("shortcuts", isOn ? null : false);
}
