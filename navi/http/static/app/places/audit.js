// Who did what, from the audit log; for admins.

import { Problem, get } from "../api.js";
import { html, useEffect, useState } from "../html.js";
import { t, time } from "../strings.js";
import { Missing, useAnswer } from "./answer.js";

const PAGE = 200;
const READ = 1000; // events a request

export function Place() {
  const [events, setEvents] = useState(null);
  const [isWhole, setWhole] = useState(false);
  const [problem, setProblem] = useState(null);
  const [wanted, setWanted] = useState("");
  const [users] = useAnswer("/users");
  const read = async () => {
    // The log is read from its beginning and shown from its end: page by page until all is here.
    const found = events ?? [];
    setProblem(null);
    try {
      const page = await get(`/audit?limit=${READ}&after=${found.at(-1)?.seq ?? 0}`);
      setEvents([...found, ...page.events]);
      setWhole(page.events.length < READ);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem({ problem: error.message });
    }
  };
  useEffect(() => {
    if (!isWhole) read();
  }, [events?.length]);
  if (problem || events === null) return html`<${Missing} answer=${problem} again=${read} />`;
  const names = new Map((users?.users ?? []).map(({ id, name }) => [id, name]));
  const types = [...new Set(events.map((event) => event.type))].sort();
  const shown = events.filter((event) => !wanted || event.type === wanted).toReversed();
  return html`
    <div class="place-body audit">
      <div class="actions">
        <label>
          ${t("audit-type")}
          <select value=${wanted} onChange=${({ target }) => setWanted(target.value)}>
            <option value="">${t("audit-all")}</option>
            ${types.map((type) => html`<option key=${type} value=${type}>${type}</option>`)}
          </select>
        </label>
      </div>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th scope="col">${t("audit-when")}</th>
              <th scope="col">${t("audit-what")}</th>
              <th scope="col">${t("audit-who")}</th>
              <th scope="col">${t("audit-about")}</th>
            </tr>
          </thead>
          <tbody>
            ${shown.slice(0, PAGE).map((event) => {
              const { by, address, ...about } = event.data;
              return html`
                <tr key=${event.seq}>
                  <td>${time(event.at)}</td>
                  <th scope="row">${event.type}</th>
                  <td title=${by ?? undefined}><span dir="auto">${names.get(by) ?? String(by ?? "")}</span>${address && html` <span class="fine">${String(address)}</span>`}</td>
                  <td class="about">${aboutOf(about, names)}</td>
                </tr>
              `;
            })}
          </tbody>
        </table>
      </div>
      ${shown.length > PAGE && html`<p class="fine">${t("audit-more", { count: shown.length - PAGE })}</p>`}
    </div>
  `;
}

/** What an event was about, with users by their names. */
function aboutOf(about, names) {
  return Object.entries(about)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name}: ${names.get(value) ?? (typeof value === "object" ? JSON.stringify(value) : value)}`)
    .join(" · ");
}
