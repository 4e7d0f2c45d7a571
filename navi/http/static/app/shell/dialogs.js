// The dialogs of the frame, loaded when they are first opened. One is open at a time.

import { createElement, html, signal, useLayoutEffect, useRef } from "../html.js";
import { notLoaded } from "../lazy.js";
import { Lines } from "./lines.js";

const shown = signal(null);
/** How many `Modal`s are open: what is behind them can neither be clicked nor read out. */
export const modals = signal(0);

async function open(load) {
  try {
    shown.value = await load();
  } catch {
    notLoaded();
  }
}

let Palette = null;
async function loadPalette() {
  ({ Palette } = await import("./palette.js"));
  return Palette;
}

/** Open the palette; at once where it is there, so that what is written next stands in it. */
export function openPalette() {
  if (Palette) shown.value = Palette;
  else open(loadPalette);
}

export const openShortcuts = () => open(() => import("./shortcut_list.js").then((module) => module.ShortcutList));

setTimeout(() => loadPalette().catch(() => {}), 2000);

export function Dialogs() {
  return shown.value && createElement(shown.value, { onClose: () => (shown.value = null) });
}

/** A dialog that is open as long as it is drawn; the focus goes back to where it was. */
export function Modal({ label, className, onClose, children }) {
  const dialog = useRef();
  useLayoutEffect(() => {
    dialog.current.showModal();
    modals.value++;
    return () => void modals.value--;
  }, []);
  return html`
    <dialog
      ref=${dialog}
      class=${className}
      aria-label=${label}
      onClose=${onClose}
      onClick=${({ target }) => target === dialog.current && dialog.current.close()}
    >
      ${children}
      <${Lines} />
    </dialog>
  `;
}
