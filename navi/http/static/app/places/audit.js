// Who did what, from the audit log; for admins.

import { Problem, get } from "../api.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { t, time } from "../strings.js";
import { Missing, useAnswer } from "./answer.js";

const PAGE = 200; // events a request
const END = 2 ** 53; // beyond every seq

export function Place() {
  const [events, setEvents] = useState(null); // the newest, oldest first
  const [isWhole, setWhole] = useState(false);
  const [problem, setProblem] = useState(null);
  const [wanted, setWanted] = useState("");
  const [users] = useAnswer("/users");
  const read = async () => {
    const found = events ?? [];
    setProblem(null);
    try {
      const page = await get(`/audit?limit=${PAGE}&before=${found[0]?.seq ?? END}`);
      setEvents([...page.events, ...found]);
      setWhole(page.events.length < PAGE);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem({ problem: error.message });
    }
  };
  useEffect(() => void read(), []);
  const table = useRef();
  useEffect(() => {
    // The button that loaded the last of it is gone.
    if (events?.length > PAGE && document.activeElement === document.body) table.current?.focus({ preventScroll: true });
  }, [isWhole]);
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
      <div class="scroll" tabindex="-1" ref=${table}>
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
            ${shown.map((event) => {
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
      ${!isWhole && html`<button onClick=${read}>${t("load-earlier")}</button>`}
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
