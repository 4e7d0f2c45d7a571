// The keys of commands: what they are called, and whether they are pressed.

import { html } from "../html.js";
import { VIEWS } from "../router.js";
import { t } from "../strings.js";

const isMac = /Mac|iPhone|iPad/.test(navigator.platform);
const SIGNS = { ArrowUp: "↑", ArrowDown: "↓" };

/**
 * Keys: `mod` is Ctrl, or Cmd on a Mac; `code` a place on the keyboard, `key` what it writes.
 * What writes a letter counts outside of fields only.
 */
const KEYS = {
  commands: { mod: true, code: "KeyK", sign: "K" },
  "new-session": { mod: true, shift: true, code: "KeyO", sign: "O" },
  "next-session": { alt: true, code: "ArrowDown" },
  "previous-session": { alt: true, code: "ArrowUp" },
  "search-sessions": { key: "s" },
  "go-to-message": { key: "/" },
  stop: { mod: true, key: "." },
  ...Object.fromEntries(VIEWS.map((view, index) => [`view-${view}`, { key: String(index + 1) }])),
  shortcuts: { key: "?" },
};

/** What the keys of a command are called, in the order in which they are held. */
export function keysOf(id) {
  const keys = KEYS[id];
  if (!keys) return [];
  const held = [keys.mod && (isMac ? "⌘" : t("key-ctrl")), keys.alt && (isMac ? "⌥" : t("key-alt")), keys.shift && t("key-shift")];
  return [...held.filter(Boolean), keys.sign ?? SIGNS[keys.code] ?? keys.key.toUpperCase()];
}

export function Keys({ id }) {
  return html`<span class="keys">${keysOf(id).map((key) => html`<kbd>${key}</kbd>`)}</span>`;
}

/** Whether an event is the keys of a command. */
export function isPressed(id, event) {
  const { mod = false, alt = false, shift, key, code } = KEYS[id];
  const isMod = isMac ? event.metaKey : event.ctrlKey;
  const isOther = isMac ? event.ctrlKey : event.metaKey;
  if (isMod !== mod || isOther || event.altKey !== alt) return false;
  if (code) return event.code === code && event.shiftKey === (shift ?? false);
  return event.key === key; // with Shift where a keyboard has it there
}

/** Whether keys are for the field that has the focus: they write in it, or open its list. */
export const isFor = (id, field) => !KEYS[id].mod && (!KEYS[id].alt || field.localName === "select");

/** Whether a key is for an input method, as Enter is that takes a word of it; Safari says so by the code only. */
export const isComposed = (event) => event.isComposing || event.keyCode === 229;

export const withKeys = Object.keys(KEYS);
