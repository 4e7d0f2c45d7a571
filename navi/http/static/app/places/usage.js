// What model calls came to: tokens and cost by day, model, session, profile, purpose or user.

import { lastDays } from "../days.js";
import { computed, html, useEffect, useMemo, useState } from "../html.js";
import { addressOf, follow } from "../router.js";
import { hasAccounts, isAdmin } from "../session/me.js";
import { profileName } from "../session/profiles.js";
import { readFurther, sessions } from "../session/session_list.js";
import { t, tokens } from "../strings.js";
import { Missing, useAnswer } from "./answer.js";

// Where there are no accounts, all is one person's.
const seesAll = computed(() => hasAccounts.value && isAdmin.value);
const WAYS = ["day", "model", "session", "profile", "purpose", "owner"];
const SPANS = [7, 30, 90, 365];
const MOST_ROWS = 100;

export function Place() {
  const [by, setBy] = useState("day");
  const [days, setDays] = useState(30);
  const [all, setAll] = useState(false);
  const query = new URLSearchParams({ by, from: lastDays(days)[0] });
  if (all) query.set("owner", "all");
  const [answer, again] = useAnswer(`/usage?${query}`);
  const [users] = useAnswer(by === "owner" ? "/users" : null);
  const names = new Map(users?.users?.map(({ id, name }) => [id, name]));
  const shown = useMemo(() => ({ by, days }), [answer]); // until the next answer, what this one was asked for
  useEffect(() => {
    if (by === "session") readFurther(true); // for their names
  }, [by]);
  return html`
    <div class="place-body">
      <div class="actions">
        <label>
          ${t("usage-by")}
          <select value=${by} onChange=${({ target }) => setBy(target.value)}>
            ${WAYS.filter((way) => way !== "owner" || seesAll.value).map(
              (way) => html`<option key=${way} value=${way}>${t(`usage-by-${way}`)}</option>`,
            )}
          </select>
        </label>
        <label>
          ${t("usage-span")}
          <select value=${days} onChange=${({ target }) => setDays(Number(target.value))}>
            ${SPANS.map((count) => html`<option key=${count} value=${count}>${t("days", { count })}</option>`)}
          </select>
        </label>
        ${seesAll.value &&
        html`<label class="check"><input type="checkbox" checked=${all} onChange=${({ target }) => setAll(target.checked)} /> ${t("usage-all")}</label>`}
      </div>
      ${answer?.rows && (by !== "owner" || users !== null)
        ? html`<${Report} ...${shown} report=${answer} names=${names} />`
        : html`<${Missing} answer=${answer} again=${again} />`}
    </div>
  `;
}

function Report({ by, days, report, names }) {
  const { total } = report;
  const rows = by === "day" ? everyDay(report.rows, days) : mostFirst(report.rows);
  const most = Math.max(1, ...rows.map(sumOf));
  const isPriced = costOf(total) !== "";
  return html`
    <dl class="figures">
      <div><dt>${t("usage-calls")}</dt><dd>${total.calls}</dd></div>
      <div><dt>${t("usage-failed")}</dt><dd>${total.failed}</dd></div>
      <div><dt>${t("usage-prompt")}</dt><dd>${tokens(total.prompt_tokens)}</dd></div>
      <div><dt>${t("usage-completion")}</dt><dd>${tokens(total.completion_tokens)}</dd></div>
      ${isPriced && html`<div><dt>${t("usage-cost")}</dt><dd>${costOf(total)}</dd></div>`}
    </dl>
    ${total.estimated > 0 && html`<p class="fine">${t("usage-estimated", { count: total.estimated })}</p>`}
    ${rows.length === 0 && html`<p class="empty">${t("usage-none")}</p>`}
    <table class="usage">
      <thead>
        <tr>
          <th scope="col">${t(`usage-by-${by}`)}</th>
          <th scope="col" class="picture"><span class="hidden">${t("usage-share")}</span></th>
          <th scope="col">${t("usage-tokens")}</th>
          <th scope="col">${t("usage-calls")}</th>
          ${isPriced && html`<th scope="col">${t("usage-cost")}</th>`}
        </tr>
      </thead>
      <tbody>
        ${rows.slice(0, MOST_ROWS).map(
          (row) => html`
            <tr key=${row.key}>
              <th scope="row" dir="auto"><${Key} by=${by} name=${row.key} names=${names} /></th>
              <td class="picture" aria-hidden="true">
                <span class="amount prompt" style=${{ width: `${(100 * row.prompt_tokens) / most}%` }}></span
                ><span class="amount completion" style=${{ width: `${(100 * row.completion_tokens) / most}%` }}></span>
              </td>
              <td>${tokens(sumOf(row))}</td>
              <td>${row.calls}</td>
              ${isPriced && html`<td>${costOf(row)}</td>`}
            </tr>
          `,
        )}
      </tbody>
    </table>
    <p class="fine amounts">
      <span><i class="amount prompt"></i>${t("usage-prompt")}</span>
      <span><i class="amount completion"></i>${t("usage-completion")}</span>
    </p>
  `;
}

function Key({ by, name, names }) {
  if (by === "owner") return names.get(name) ?? name;
  if (by === "profile") return profileName(name);
  if (by === "purpose") return t(`purpose-${name}`);
  if (by !== "session") return name;
  const place = { sessionId: name };
  const found = sessions.value?.find((session) => session.id === name);
  return html`<a href=${addressOf(place)} onClick=${(event) => follow(event, place)}>${found?.name || name}</a>`;
}

const sumOf = (row) => row.prompt_tokens + row.completion_tokens;

function mostFirst(rows) {
  return rows.toSorted((one, other) => sumOf(other) - sumOf(one));
}

/** A row for every day, newest first, also for those without a call. */
function everyDay(rows, days) {
  const found = new Map(rows.map((row) => [row.key, row]));
  const none = { calls: 0, failed: 0, prompt_tokens: 0, completion_tokens: 0, estimated: 0 };
  const first = [...found.keys()].sort()[0];
  return lastDays(days)
    .reverse()
    .filter((day) => first !== undefined && day >= first)
    .map((key) => found.get(key) ?? { ...none, key });
}

/** What it cost, in each currency; empty where no price is known. */
function costOf(row) {
  const costs = row.costs ?? (typeof row.cost === "number" ? { [row.currency]: row.cost } : {});
  return Object.entries(costs)
    .map(([currency, cost]) => `${cost.toFixed(2)} ${currency}`)
    .join(" + ");
}
