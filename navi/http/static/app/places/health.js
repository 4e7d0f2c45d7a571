// How the node is that answers: its servers, models, read models and tools; for admins.

import { html } from "../html.js";
import { t, tokens } from "../strings.js";
import { Missing, useAnswer } from "./answer.js";

const EVERY = 3000; // ms

export function Place() {
  const [node, again] = useAnswer("/node", { every: EVERY });
  if (!node?.status) return html`<${Missing} answer=${node} again=${again} />`;
  return html`
    <div class="place-body">
      <dl class="figures">
        <div><dt>${t("health-status")}</dt><dd><${Mark} good=${node.status === "ready"} text=${t(`health-${node.status}`)} /></dd></div>
        <div><dt>Postgres</dt><dd><${Mark} good=${node.postgres.ok} text=${node.postgres.ok ? `${Math.round(node.postgres.ms)} ms` : t("health-away")} /></dd></div>
        <div><dt>NATS</dt><dd><${Mark} good=${node.nats.state === "connected"} text=${t(`nats-${node.nats.state}`)} /></dd></div>
        <div><dt>${t("health-turns")}</dt><dd>${node.turns_running}</dd></div>
        <div><dt>${t("health-sockets")}</dt><dd>${node.sockets}</dd></div>
      </dl>
      <p class="fine">${t("health-node", { version: node.version, id: node.node, hours: (node.uptime_seconds / 3600).toFixed(1) })}${
        node.nats.lag > 0 ? ` · ${t("health-lag", { count: node.nats.lag })}` : ""
      }</p>
      <section aria-label=${t("health-models")}>
        <h2>${t("health-models")}</h2>
        <${Table}
          heads=${["health-server", "health-model", "health-window", "health-slots", "health-waiting", "health-state"]}
          rows=${node.models.map((model) => [
            model.backend,
            model.name ?? "",
            model.context_window ? tokens(model.context_window) : "",
            model.slots ? `${model.in_use} / ${model.slots}` : String(model.in_use),
            model.waiting,
            html`<${Mark} good=${model.state === "ready"} text=${t(`model-${model.state}`)} />`,
          ])}
        />
      </section>
      <section aria-label=${t("health-projections")}>
        <h2>${t("health-projections")}</h2>
        <${Table}
          heads=${["health-name", "health-state", "health-position", "health-behind"]}
          rows=${node.projections.map((one) => [
            `${one.name} v${one.version}`,
            html`<${Mark} good=${one.state === "live"} text=${t(`projection-${one.state}`)} />`,
            one.position,
            one.lag,
          ])}
        />
      </section>
      ${node.unavailable.length > 0 &&
      html`
        <section aria-label=${t("health-tools")}>
          <h2>${t("health-tools")}</h2>
          <${Table} heads=${["health-name", "health-why"]} rows=${node.unavailable.map((one) => [one.name, one.reason])} />
        </section>
      `}
    </div>
  `;
}

function Table({ heads, rows }) {
  return html`
    <div class="scroll">
      <table>
        <thead>
          <tr>${heads.map((head) => html`<th key=${head} scope="col">${t(head)}</th>`)}</tr>
        </thead>
        <tbody>
          ${rows.map(
            ([name, ...cells], index) => html`
              <tr key=${index}>
                <th scope="row" dir="auto">${name}</th>
                ${cells.map((cell, column) => html`<td key=${column} dir="auto">${cell}</td>`)}
              </tr>
            `,
          )}
        </tbody>
      </table>
    </div>
  `;
}

/** A state in words, with a mark that is told apart without its colour. */
function Mark({ good, text }) {
  return html`<span class=${good ? "mark good" : "mark bad"}><span aria-hidden="true">${good ? "●" : "▲"}</span> ${text}</span>`;
}
