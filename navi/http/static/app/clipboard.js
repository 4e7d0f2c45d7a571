// Copying to the clipboard.

import { complain, status } from "./announce.js";
import { t } from "./strings.js";

/** Copy a text, and say so; gives whether it was possible. */
export async function copy(text) {
  const isDone = await navigator.clipboard?.writeText(text).then(
    () => true,
    () => false,
  );
  if (isDone || copiedByHand(text)) {
    status.value = t("copied");
    return true;
  }
  complain(t("not-copied"));
  return false;
}

// A page that came over plain HTTP from another machine has no clipboard of its own.
function copiedByHand(text) {
  const focused = document.activeElement;
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "hidden";
  // Behind a dialog nothing can be selected.
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  const isDone = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return isDone;
}
