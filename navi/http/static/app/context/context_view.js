// The view "Context" of a session: what fills the window, and the two buffers side by side.

import { doing } from "../session/open_session.js";
import { buffers } from "../folds/context.js";
import { html, memo, useEffect, useMemo, useState } from "../html.js";
import { isForeign } from "../session/me.js";
import { profileName } from "../session/profiles.js";
import { t, time, tokens } from "../strings.js";
import { stylesheet } from "../stylesheet.js";
import { Bar, useWindow } from "./gauge.js";
import { PARTS } from "./shares.js";

await stylesheet("../../style/buffers.css", import.meta.url);

const FIRST_ROWS = 200;
const MORE_ROWS = 500;
const SHORT = 320; // characters of a message before it is opened

export function ContextView({ session }) {
  const { state, window, shares, threshold } = useWindow(session, true);
  const isFixed = session.moment.value !== null || isForeign(session);
  useEffect(() => {
    doing(() => session.log.reach(0)); // what was compressed may stand far back
  }, [session]);
  const last = state.compressions.at(-1);
  return html`
    <div class="context-view">
      <section class="window" aria-label=${t("window")}>
        <h2>${t("window")}</h2>
        ${shares && window
          ? html`<${Filling} shares=${shares} window=${window} threshold=${threshold} />`
          : html`<p class="fine">${t("window-unknown")}</p>`}
        <div class="actions">
          <button disabled=${isFixed} onClick=${() => session.compress()}>
            ${t("compress")}
          </button>
          <button disabled=${isFixed || !last} onClick=${() => session.undoCompression(last.seq)}>${t("undo-compression")}</button>
        </div>
      </section>
      <${Buffers} state=${state} session=${session} />
    </div>
  `;
}

function Filling({ shares, window, threshold }) {
  const percent = Math.round((100 * shares.used) / window);
  const text = t("gauge", { percent, used: tokens(shares.used), window: tokens(window) });
  return html`
    <${Bar} shares=${shares} window=${window} threshold=${threshold} percent=${percent} text=${text} />
    <table class="shares">
      <caption class="fine">${text}${shares.isExact ? "" : ` · ${t("shares-estimated")}`}</caption>
      <tbody>
        ${PARTS.map(
          (part) => html`
            <tr key=${part}>
              <th scope="row"><i data-part=${part} aria-hidden="true"></i> ${t(`part-${part}`)}</th>
              <td>${tokens(Math.round(shares.parts[part]))}</td>
              <td>${Math.round((100 * shares.parts[part]) / window)} %</td>
            </tr>
          `,
        )}
        <tr>
          <th scope="row"><i data-part="free" aria-hidden="true"></i> ${t("part-free")}</th>
          <td>${tokens(Math.max(0, window - Math.round(shares.used)))}</td>
          <td>${Math.max(0, 100 - percent)} %</td>
        </tr>
      </tbody>
    </table>
    ${threshold && html`<p class="fine">${t("gauge-threshold", { percent: Math.round(100 * threshold) })}</p>`}
  `;
}

/** Both buffers as rows of a table: on the right a summary stands beside all that it stands for. */
function Buffers({ state, session }) {
  const [count, setCount] = useState(FIRST_ROWS);
  const lines = useMemo(() => linesOf(state), [state.messages, state.rows]);
  const shown = spans(lines.slice(-count));
  return html`
    <section class="buffers" aria-label=${t("buffers")}>
      <h2>${t("buffers")}</h2>
      ${lines.length > count &&
      html`<button onClick=${() => setCount(count + MORE_ROWS)}>${t("show-earlier", { count: lines.length - count })}</button>`}
      <table>
        <thead>
          <tr>
            <th scope="col">${t("buffer-messages")}</th>
            <th scope="col">${t("buffer-context")}</th>
          </tr>
        </thead>
        <tbody>
          ${shown.map(
            (line) => html`
              <tr key=${line.key}>
                <td class=${line.summary ? "compressed" : undefined}>
                  ${line.message && html`<${Cell} row=${line.message} session=${session} />`}
                </td>
                ${line.span > 0 &&
                html`<td rowspan=${line.span} class=${line.summary ? "summary" : undefined}>
                  ${(line.summary ?? line.row) && html`<${Cell} row=${line.summary ?? line.row} session=${session} />`}
                </td>`}
              </tr>
            `,
          )}
        </tbody>
      </table>
      ${!lines.length && html`<p class="fine">${t("buffers-empty")}</p>`}
    </section>
  `;
}

const Cell = memo(({ row, session }) => {
  const [isOpen, setOpen] = useState(false);
  const isLong = row.content.length > SHORT;
  const who = row.kind === "said" ? { user: t("you"), tool: t("tool"), assistant: profileName(session.row.value?.profile_id) }[row.role] : t(`row-${row.kind}`);
  return html`
    <div class="cell" data-kind=${row.kind} data-role=${row.role}>
      <p class="fine"><b>${who}</b> <span title=${time(row.at)}>#${row.seq}</span></p>
      <div class="said" dir="auto">${isLong && !isOpen ? `${row.content.slice(0, SHORT)} …` : row.content}</div>
      ${isLong && html`<button class="plain" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>${t(isOpen ? "show-less" : "show-all")}</button>`}
    </div>
  `;
});

/**
 * The lines of the table, in order: {key, message, row, summary}.
 *
 * A line has a message of the left buffer, a row of the right one, or both where they are the same.
 * `summary` is the summary in force that stands in the row's place.
 */
function linesOf(state) {
  const inForce = new Map(state.rows.filter((row) => row.kind === "summary").map((row) => [row.seq, row]));
  const standsFor = (row) => {
    let by = row.hiddenBy;
    while (by !== null && inForce.get(by)?.hiddenBy) by = inForce.get(by).hiddenBy;
    return by === null ? null : (inForce.get(by) ?? null);
  };
  const rows = new Map(state.rows.filter((row) => row.kind !== "summary").map((row) => [row.seq, row]));
  const lines = state.messages.map((message) => {
    const row = rows.get(message.seq) ?? null;
    rows.delete(message.seq);
    const place = row ? row.key : message.seq;
    return { key: `m${message.seq}`, place, message, row: row?.hiddenBy === null ? row : null, summary: row && standsFor(row) };
  });
  for (const row of rows.values()) {
    const summary = standsFor(row);
    // Guidance and recalls that were summarised are only part of what the summary stands for.
    if (summary === null) lines.push({ key: `r${row.key}`, place: row.key, message: null, row, summary });
  }
  return lines.sort((one, other) => one.place - other.place);
}

/** Lines with the number of rows that the right cell is high: 0 where the one above reaches down. */
function spans(lines) {
  const made = lines.map((line) => ({ ...line, span: 1 }));
  // What people see between two messages of a span, a marker or text that was cut off, belongs to it.
  let last = null;
  for (let index = 0; index < made.length; index++) {
    const line = made[index];
    if (!line.summary && last?.summary && line.row === null && made[index + 1]?.summary === last.summary) line.summary = last.summary;
    if (line.summary && last?.summary === line.summary) {
      last.span += 1;
      line.span = 0;
    } else last = line;
  }
  return made;
}
