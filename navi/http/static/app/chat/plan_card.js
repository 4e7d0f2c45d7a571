// The plan of a turn, with how far it has come; while it is made, what phase that is in.

import { html, memo } from "../html.js";
import { PlanIcon } from "../icons.js";
import { t } from "../strings.js";
import { Card } from "./card.js";
import { Elapsed } from "./elapsed.js";
import { StateShape } from "./state_words.js";

const PHASES = 3;
const OVER = new Set(["done", "skipped"]);

export const PlanCard = memo(({ item, isRunning }) => {
  if (item.phase !== null) return html`<${Planning} item=${item} isRunning=${isRunning} />`;
  const steps = stepsOf(item);
  const count = steps.filter((step) => OVER.has(step.status)).length;
  const words = t("plan-progress", { done: count, of: steps.length });
  return html`
    <${Card}
      name=${t("plan")}
      kind="plan"
      isOpenAtFirst=${isRunning}
      line=${html`<${PlanIcon} /> <b>${t("plan")}</b> <span class="about">${nextOf(steps)}</span> <span class="state">${words}</span>`}
      beside=${html`<div
        role="progressbar"
        class="plan-bar"
        aria-label=${t("plan")}
        aria-valuemin="0"
        aria-valuenow=${count}
        aria-valuemax=${steps.length}
        aria-valuetext=${words}
      >
        <div style=${{ width: `${steps.length ? (count / steps.length) * 100 : 0}%` }}></div>
      </div>`}
    >
      <ol class="steps">
        ${steps.map(
          (step) => html`<li key=${step.id} data-state=${step.status}>
            <${StateShape} state=${step.status} />
            <span dir="auto">${step.text}${step.executor?.name ? html` <code>${step.executor.name}</code>` : ""}</span>
            <span class="fine">${t(`state-${step.status}`)}</span>
          </li>`,
        )}
      </ol>
      ${steps.length === 0 && item.text && html`<p class="said" dir="auto">${item.text}</p>`}
      ${item.milestones?.length > 0 &&
      html`<p class="fine">${t("plan-milestones")}</p>
        <ul class="milestones fine">${item.milestones.map((milestone, index) => html`<li key=${index} dir="auto">${milestone}</li>`)}</ul>`}
    <//>
  `;
});

function Planning({ item, isRunning }) {
  return html`
    <div role="group" aria-label=${t("plan")} class="card plan">
      <p class="card-head">
        <${PlanIcon} /> <b>${t("plan")}</b> <span class="about">${t("plan-made", { phase: item.phase, of: PHASES })}</span>
        ${isRunning && html`<${Elapsed} from=${item.at} />`}
      </p>
    </div>
  `;
}

/** The steps with their states: those of the session's list once it is this plan's, else as they were planned. */
function stepsOf(item) {
  const planned = item.steps.map((step) => ({ id: String(step.number), text: step.text, executor: step.executor, status: "pending" }));
  if (!item.todo) return planned;
  const executors = new Map(planned.map((step) => [step.text, step.executor]));
  return item.todo.map((step) => ({ ...step, executor: executors.get(step.text) }));
}

function nextOf(steps) {
  return steps.find((step) => step.status === "in_progress")?.text ?? "";
}
