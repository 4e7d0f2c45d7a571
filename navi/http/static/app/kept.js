// What this browser keeps between visits: drafts, the theme, how far a session was read.
//
// A browser may refuse to keep anything; the page then works as on the first visit.

const PREFIX = "navi.";

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
