// The list of sessions where there is no room beside it: a drawer that opens over the page.

import { MenuIcon } from "../icons.js";
import { effect, html, signal, untracked, useEffect, useRef } from "../html.js";
import { route } from "../router.js";
import { t } from "../strings.js";

const query = matchMedia("(max-width: 720px)");
const isNarrow = signal(query.matches);
/** Whether the drawer is open, where there is one. */
const wanted = signal(false);

export const DRAWER = "sidebar";
export const isOpen = () => isNarrow.value && wanted.value;
export const isShut = () => isNarrow.value && !wanted.value;

export function openDrawer() {
  wanted.value = true;
}

export function closeDrawer() {
  wanted.value = false;
}

query.addEventListener("change", ({ matches }) => {
  isNarrow.value = matches;
});
// Who goes somewhere wants to see what is there.
effect(() => {
  void route.value;
  untracked(closeDrawer);
});

/** The button of the drawer; the focus comes back to it. */
export function DrawerButton() {
  const button = useRef();
  const was = useRef(false);
  const open = isOpen();
  useEffect(() => {
    if (was.current && !open) button.current?.focus();
    was.current = open;
  }, [open]);
  return (
    isNarrow.value &&
    html`
      <button
        class="plain square"
        ref=${button}
        aria-label=${t("sessions")}
        aria-expanded=${open}
        aria-controls=${DRAWER}
        onClick=${openDrawer}
      >
        <${MenuIcon} />
      </button>
    `
  );
}
