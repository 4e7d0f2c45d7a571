// What a model thought: open while it thinks, folded once the answer begins.

import { html, useState } from "../html.js";
import { duration, t } from "../strings.js";

export function Thinking({ item }) {
  const isThinking = item.thinkingUntil === null;
  const [opened, setOpened] = useState(null); // what the reader chose, if anything
  const isOpen = opened ?? isThinking;
  const time = isThinking ? "" : duration(Date.parse(item.thinkingUntil) - Date.parse(item.thinkingFrom));
  return html`
    <div role="group" aria-label=${t("thinking")} class="card thinking">
      <button class="plain card-head" aria-expanded=${isOpen} onClick=${() => setOpened(!isOpen)}>
        ${isThinking ? t("thinking-now") : t("thought-for", { time })}
      </button>
      ${isOpen && html`<div class="card-body said" dir="auto">${item.thinking}</div>`}
    </div>
  `;
}
