// A call of a tool: one line from waiting to done, that opens.

import { html, useState } from "../html.js";
import { duration, t } from "../strings.js";
import { Approval } from "./approval.js";

export function ToolCard({ item, session }) {
  const [isOpen, setOpen] = useState(false);
  return html`
    <div role="group" aria-label=${t("tool-card", { name: item.name })} class="card tool" data-state=${item.state}>
      <button class="plain card-head" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
        <span class="state">${t(`state-${item.state}`)}</span> <b>${item.name}</b>
        ${item.durationMs !== undefined && html`<span class="fine">${duration(item.durationMs)}</span>`}
      </button>
      ${item.approval && !item.approval.decision && item.state === "waiting" && html`<${Approval} item=${item} session=${session} />`}
      ${isOpen &&
      html`<div class="card-body">
        <pre tabindex="0">${JSON.stringify(item.arguments, null, 2)}</pre>
        <pre tabindex="0">${item.output}</pre>
      </div>`}
    </div>
  `;
}
