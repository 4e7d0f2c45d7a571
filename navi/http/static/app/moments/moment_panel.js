// What stood at the moment that is looked at: todo list, plan, and what was used so far.

import { usageSoFar } from "../folds/usage_so_far.js";
import { html, useState } from "../html.js";
import { keep, kept } from "../kept.js";
import { countUntil } from "../session/event_log.js";
import { t, tokens } from "../strings.js";
import { momentWords } from "./event_words.js";
import "./look.js";
import { ORDER, PLACES } from "./strip.js";

const WIDE = "(min-width: 721px)";
const MARKS = { pending: "○", in_progress: "◐", done: "●", failed: "✕", skipped: "–" };

export function MomentPanel({ session, at }) {
  const [isOpen, setOpen] = useState(() => kept("moment-panel", matchMedia(WIDE).matches));
  const usage = session.fold(usageSoFar);
  const { todo, turns } = session.conversation.value;
  const plan = lastPlan(turns);
  const done = todo.filter(({ status }) => status === "done").length;
  const facts = session.log.facts;
  const toggle = ({ target }) => {
    setOpen(target.open);
    keep("moment-panel", target.open);
  };
  return html`
    <section class="moment-panel" aria-label=${t("at-this-moment")}>
      <details open=${isOpen} onToggle=${toggle}>
        <summary>
          <b>${momentWords(at, facts, countUntil(facts, at))}</b>
          <span>${t("usage-calls", { count: usage.calls })}</span>
          <span>${t("usage-read", { tokens: tokens(usage.promptTokens) })}</span>
          <span>${t("usage-written", { tokens: tokens(usage.completionTokens) })}</span>
          ${todo.length > 0 && html`<span>${t("todo-progress", { done, all: todo.length })}</span>`}
        </summary>
        <div class="moment-facts" tabindex="0">
          <section>
            <h3>${t("todo")}</h3>
            ${todo.length === 0 && html`<p class="fine">${t("todo-none")}</p>`}
            <ul>
              ${todo.map(
                (item) => html`
                  <li key=${item.id} data-status=${item.status}>
                    <span aria-hidden="true">${MARKS[item.status] ?? "·"}</span>
                    <span dir="auto">${item.text}</span>
                    <span class="fine">${t(`state-${item.status}`)}</span>
                  </li>
                `,
              )}
            </ul>
          </section>
          <section>
            <h3>${t("plan")}</h3>
            ${plan ? html`<div class="moment-plan" dir="auto">${plan.text}</div>` : html`<p class="fine">${t("plan-none")}</p>`}
          </section>
          <section>
            <h3>${t("strip")}</h3>
            <ul class="legend">
              ${ORDER.map(
                (kind) => html`
                  <li key=${kind}>
                    <svg width="6" height="20" viewBox="0 0 6 100" preserveAspectRatio="none" aria-hidden="true">
                      <path class=${`tick ${kind}`} d=${`M3 ${PLACES[kind][0]}V${PLACES[kind][1]}`} />
                    </svg>
                    ${t(`kind-${kind}`)}
                  </li>
                `,
              )}
            </ul>
          </section>
        </div>
      </details>
    </section>
  `;
}

function lastPlan(turns) {
  for (const turn of turns.toReversed()) {
    const plan = turn.items.findLast(({ kind }) => kind === "plan");
    if (plan) return plan;
  }
  return null;
}
