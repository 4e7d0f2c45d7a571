// The plan of a turn, with how far it has come.

import { html } from "../html.js";
import { t } from "../strings.js";
import { Markdown } from "./markdown.js";

export function PlanCard({ item }) {
  return html`
    <div role="group" aria-label=${t("plan")} class="card plan"><${Markdown} text=${item.text} /></div>
  `;
}
