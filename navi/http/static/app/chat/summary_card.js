// Where the context was compressed: the summary, which opens to what it stands for.

import { html } from "../html.js";
import { t } from "../strings.js";
import { Markdown } from "./markdown.js";

export function SummaryCard({ item }) {
  return html`
    <div role="group" aria-label=${t("summary")} class="card summary"><${Markdown} text=${item.summary} /></div>
  `;
}
