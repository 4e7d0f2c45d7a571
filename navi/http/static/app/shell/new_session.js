// The way to where a session begins.

import { go } from "../router.js";
import { closeDrawer } from "./drawer.js";

export function newSession() {
  go({});
  closeDrawer();
  document.querySelector(".composer textarea")?.focus();
}
