// Keys that do something wherever the focus is.

import { shortcuts } from "../preferences.js";
import { signedOut } from "../api.js";
import { commandsNow } from "./commands.js";
import { isComposed, isFor, isPressed, withKeys } from "./keys.js";

const WRITES_NOTHING = ["checkbox", "radio", "range", "button"];

function isField(element) {
  if (element instanceof HTMLInputElement) return !WRITES_NOTHING.includes(element.type);
  return element instanceof HTMLElement && (element.isContentEditable || element.matches("textarea, select"));
}

addEventListener("keydown", (event) => {
  if (!shortcuts.value || signedOut.value || event.defaultPrevented || isComposed(event)) return;
  if (document.querySelector("dialog[open]")) return;
  const inField = isField(event.target);
  const id = withKeys.find((name) => isPressed(name, event) && !(inField && isFor(name, event.target)));
  const command = id && commandsNow().find((other) => other.id === id);
  if (!command) return;
  event.preventDefault();
  command.run();
});
