// Where the focus goes when what has it goes.

/** Give the focus to the entry of a list that stands beside one that goes, else to the first control of the place. */
export function focusBeside(entry, place) {
  const entries = [...place.querySelectorAll("li")];
  const at = entries.indexOf(entry);
  const beside = entries[at + 1] ?? entries[at - 1];
  (beside?.querySelector("a, button") ?? place.querySelector("button, input")).focus();
}
