// What this browser keeps between visits: drafts, the theme, how far a session was read.
//
// A browser may refuse to keep anything; it is then kept until the page is left.

const PREFIX = "navi.";
const OF_DEVICE = new Set(["theme", "language", "shortcuts", "enter-sends"]);

const refused = new Map(); // name: the JSON that the browser did not take
let isForgotten = false;

/** What was kept under a name; `otherwise` where there is nothing, or nothing readable. */
export function kept(name, otherwise = null) {
  try {
    const text = refused.get(name) ?? localStorage.getItem(PREFIX + name);
    return text === null ? otherwise : JSON.parse(text);
  } catch {
    return otherwise;
  }
}

/** The names that begin so and have a value. */
export function keptNames(beginning) {
  const names = [...refused.keys()];
  try {
    names.push(...Object.keys(localStorage).flatMap((key) => (key.startsWith(PREFIX) ? [key.slice(PREFIX.length)] : [])));
  } catch {
    // There are none then.
  }
  return [...new Set(names)].filter((name) => name.startsWith(beginning));
}

/** Call `listener` with the name of what another tab keeps or forgets; gives what ends that. */
export function onKeptElsewhere(listener) {
  const onStorage = ({ key }) => key?.startsWith(PREFIX) && listener(key.slice(PREFIX.length));
  addEventListener("storage", onStorage);
  return () => removeEventListener("storage", onStorage);
}

/** Keep a value under a name; null forgets it. */
export function keep(name, value) {
  if (isForgotten) return;
  refused.delete(name);
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    if (value !== null) refused.set(name, JSON.stringify(value)); // full, or not allowed
  }
}

/**
 * Forget all that was kept but what is of the device and not of a person. The page is to be loaded anew: what
 * it has in memory is that person's, and is not kept any more.
 */
export function forgetPerson() {
  isForgotten = true;
  for (const name of refused.keys()) if (!OF_DEVICE.has(name)) refused.delete(name);
  try {
    for (const key of Object.keys(localStorage)) {
      if (key.startsWith(PREFIX) && !OF_DEVICE.has(key.slice(PREFIX.length))) localStorage.removeItem(key);
    }
  } catch {
    // There is nothing then.
  }
}
