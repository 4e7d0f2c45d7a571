// The search over what was said, in the list of sessions.

import { Problem, get } from "../api.js";
import { status } from "../announce.js";
import { html, useEffect, useState } from "../html.js";
import { addressOf, follow } from "../router.js";
import { t, time } from "../strings.js";

const AFTER = 200; // ms after the last letter

const NOTHING = { query: "", results: [], problem: null };

/** What navi finds for a query: `{query, results, problem}`, of the last query that it has answered. */
function useSearch(query) {
  const [found, setFound] = useState(NOTHING);
  useEffect(() => {
    if (!query) {
      setFound(NOTHING);
      return;
    }
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const { results } = await get(`/search?query=${encodeURIComponent(query)}`, { signal: stop.signal });
        setFound({ query, results, problem: null });
        status.value = t("found", { count: results.length });
      } catch (error) {
        if (stop.signal.aborted) return;
        if (!(error instanceof Problem)) throw error;
        setFound({ query, results: [], problem: error.message });
      }
    }, AFTER);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [query]);
  return found;
}

/** The messages that were found; `named` are the sessions that stand above them by their names. */
export function Found({ query, named }) {
  const found = useSearch(query);
  const names = new Set(named.map(({ id }) => id));
  // A session that is found by its name stands above already.
  const results = found.results.filter(({ seq, session_id: id }) => seq !== null || !names.has(id));
  if (found.problem) return html`<p class="hint problem">${found.problem}</p>`;
  if (!results.length) {
    const text = found.query !== query ? t("searching") : names.size ? null : t("nothing-found", { query });
    return text && html`<p class="hint">${text}</p>`;
  }
  return html`
    <section aria-labelledby="group-said">
      <h2 id="group-said">${t("group-said")}</h2>
      <ul>
        ${results.map((result) => html`<${Result} key=${`${result.session_id}-${result.seq}`} result=${result} />`)}
      </ul>
    </section>
  `;
}

function Result({ result }) {
  const place = { sessionId: result.session_id, seq: result.seq };
  return html`
    <li class="found">
      <a href=${addressOf(place)} title=${time(result.at)} onClick=${(event) => follow(event, place)}>
        <b dir="auto">${result.name || t("unnamed")}</b>
        <span dir="auto">${marked(result.snippet, result.matches)}</span>
      </a>
    </li>
  `;
}

// `matches` count code points, which a string of JavaScript does not.
function marked(snippet, matches) {
  const points = Array.from(snippet);
  const parts = [];
  let at = 0;
  for (const [start, end] of matches) {
    parts.push(points.slice(at, start).join(""), html`<mark>${points.slice(start, end).join("")}</mark>`);
    at = end;
  }
  return [...parts, points.slice(at).join("")];
}
