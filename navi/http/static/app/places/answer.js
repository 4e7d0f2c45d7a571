// What navi answers to a question that a place asks, while it is shown.

import { Problem, get } from "../api.js";
import { html, useCallback, useEffect, useState } from "../html.js";
import "./look.js";
import { t } from "../strings.js";

/**
 * `[value, again]` of a path: the JSON, or null before it is there; `again()` asks anew. Of no path: null.
 *
 * What went wrong stands in `value.problem`. With `every` (ms) it is asked again and again.
 */
export function useAnswer(path, { every = null } = {}) {
  const [value, setValue] = useState(null);
  const read = useCallback(
    async (stop) => {
      if (path === null) return;
      try {
        setValue(await get(path, { signal: stop }));
      } catch (error) {
        if (stop?.aborted) return;
        if (!(error instanceof Problem)) throw error;
        setValue({ problem: error.message });
      }
    },
    [path],
  );
  useEffect(() => {
    const stop = new AbortController();
    read(stop.signal);
    const timer = every && setInterval(() => document.hidden || read(stop.signal), every);
    return () => {
      stop.abort();
      clearInterval(timer);
    };
  }, [read, every]);
  return [value, read];
}

/** What stands in the place of an answer that is not there: it is on its way, or why it cannot be had. */
export function Missing({ answer, again }) {
  if (answer === null) return html`<p class="empty">${t("loading")}</p>`;
  return html`
    <div class="empty" role="alert">
      <p>${answer.problem}</p>
      <button onClick=${() => again()}>${t("try-again")}</button>
    </div>
  `;
}
