// The order of the list of sessions: what is pinned, waits for a person and runs; then by days.

import { waits } from "../session/session_list.js";
import { t } from "../strings.js";

/** The name of a session as people read it. */
export const nameOf = (session) => session.name || t("unnamed");

// Words are found whatever their case and accents.
const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

/** Whether every word of a query stands in a text. */
export function fits(query, text) {
  const where = plain(text);
  return plain(query)
    .split(/\s+/)
    .every((word) => where.includes(word));
}

/** The groups of a list, `[{name, rows}]`; with a query one of those whose name fits it. */
export function groupsOf(rows, query = "") {
  const groups = query
    ? { names: rows.filter((row) => fits(query, nameOf(row))) }
    : { pinned: [], waiting: [], running: [], today: [], yesterday: [], week: [], older: [] };
  const since = { today: midnight(0), yesterday: midnight(1), week: midnight(7) };
  if (!query) for (const row of rows) groups[groupOf(row, since)].push(row);
  return Object.entries(groups).flatMap(([name, some]) => (some.length ? [{ name, rows: some }] : []));
}

/** All sessions, in the order in which they are shown. */
export const inOrder = (rows) => groupsOf(rows).flatMap((group) => group.rows);

// So many days ago; one may have 23 or 25 hours.
function midnight(days) {
  const day = new Date();
  day.setHours(0, 0, 0, 0);
  return day.setDate(day.getDate() - days);
}

function groupOf(row, since) {
  if (row.pinned) return "pinned";
  if (waits(row)) return "waiting";
  if (row.status === "running") return "running";
  const at = Date.parse(row.last_active ?? row.created_at);
  return ["today", "yesterday", "week"].find((name) => at >= since[name]) ?? "older";
}
