// Who did what, from the audit log; for admins.

import { get } from "../api.js";
import { html, useEffect, useState } from "../html.js";
import "./look.js";
import { doing } from "../session/open_session.js";
import { t, time } from "../strings.js";

const PAGE = 200;

export function Place() {
  const [events, setEvents] = useState(null);
  const [isWhole, setWhole] = useState(false);
  const [wanted, setWanted] = useState("");
  const read = () =>
    doing(async () => {
      // The log is read from its beginning and shown from its end: page by page until all is here.
      let found = events ?? [];
      const page = await get(`/audit?limit=${PAGE * 5}&after=${found.at(-1)?.seq ?? 0}`);
      found = [...found, ...page.events];
      setEvents(found);
      setWhole(page.events.length < PAGE * 5);
    });
  useEffect(() => {
    if (!isWhole) read();
  }, [events?.length]);
  if (events === null) return html`<p class="empty">${t("loading")}</p>`;
  const types = [...new Set(events.map((event) => event.type))].sort();
  const shown = events.filter((event) => !wanted || event.type === wanted).toReversed();
  return html`
    <div class="place-body">
      <label>
        ${t("audit-type")}
        <select value=${wanted} onChange=${({ target }) => setWanted(target.value)}>
          <option value="">${t("audit-all")}</option>
          ${types.map((type) => html`<option key=${type} value=${type}>${type}</option>`)}
        </select>
      </label>
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
                  <td>${String(by ?? "")}${address && html` <span class="fine">${String(address)}</span>`}</td>
                  <td class="about">${Object.entries(about).filter(([, value]) => value !== null).map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : value}`).join(" · ")}</td>
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
