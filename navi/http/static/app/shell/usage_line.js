// What models were asked for today, in a line, with the days before as bars.

import { get } from "../api.js";
import { lastDays } from "../days.js";
import { html, useComputed, useEffect, useState } from "../html.js";
import { addressOf, follow } from "../router.js";
import { me } from "../session/me.js";
import { sessions } from "../session/session_list.js";
import { t, tokens } from "../strings.js";

const DAYS = 7;
const EVERY = 60_000; // ms
const AFTER = 1500; // ms after a session has used something
const HEIGHT = 14;

const PLACE = { place: "usage" };

async function readDays() {
  const days = lastDays(DAYS);
  const { rows } = await get(`/usage?by=day&from=${days[0]}&to=${days.at(-1)}`);
  const used = new Map(rows.map((row) => [row.key, row.prompt_tokens + row.completion_tokens]));
  return days.map((day) => used.get(day) ?? 0);
}

export function UsageLine() {
  const [days, setDays] = useState(null);
  const used = useComputed(() => sessions.value?.reduce((sum, { usage }) => sum + usage.calls, 0) ?? 0);
  useEffect(() => {
    const read = () => document.hidden || readDays().then(setDays, () => {}); // the next reading tells
    const soon = setTimeout(read, days === null ? 0 : AFTER);
    const timer = setInterval(read, EVERY);
    return () => {
      clearTimeout(soon);
      clearInterval(timer);
    };
  }, [used.value]);
  if (days === null) return html`<div class="usage-line" />`;
  const most = Math.max(...days, 1);
  const limit = me.value?.limits?.tokens;
  const count = tokens(days.at(-1));
  return html`
    <a class="usage-line" href=${addressOf(PLACE)} onClick=${(event) => follow(event, PLACE)}>
      <svg width=${DAYS * 5} height=${HEIGHT} aria-hidden="true">
        ${days.map((day, index) => {
          const height = day ? Math.max(2, (day / most) * HEIGHT) : 1;
          return html`<rect x=${index * 5} y=${HEIGHT - height} width="3" height=${height} />`;
        })}
      </svg>
      ${limit ? t("usage-of-today", { tokens: count, limit: tokens(limit) }) : t("usage-today", { tokens: count })}
    </a>
  `;
}
