// What this browser keeps between visits: drafts, the theme, how far a session was read.
//
// A browser may refuse to keep anything; the page then works as on the first visit.

const PREFIX = "navi.";
const OF_DEVICE = new Set(["theme", "language", "shortcuts", "enter-sends"]);

/** What was kept under a name; `otherwise` where there is nothing, or nothing readable. */
export function kept(name, otherwise = null) {
  try {
    const text = localStorage.getItem(PREFIX + name);
    return text === null ? otherwise : JSON.parse(text);
  } catch {
    return otherwise;
  }
}

/** Keep a value under a name; null forgets it. */
export function keep(name, value) {
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // Full, or refused: see above.
  }
}

/** Forget all that was kept but what is of the device and not of a person. */
export function forgetPerson() {
  try {
    for (const key of Object.keys(localStorage)) {
      if (key.startsWith(PREFIX) && !OF_DEVICE.has(key.slice(PREFIX.length))) localStorage.removeItem(key);
    }
  } catch {
    // There is nothing then.
  }
}
