// Copying to the clipboard.

import { complain, status } from "./announce.js";
import { t } from "./strings.js";

/** Copy a text, and say so; gives whether it was possible. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    status.value = t("copied");
    return true;
  } catch {
    complain(t("not-copied")); // browsers only let pages copy that came over https, or from this machine
    return false;
  }
}
