// A conversation that another program had before it came here: its end, and the rest on demand.

import { html, useState } from "../html.js";
import { t } from "../strings.js";
import { Markdown } from "./markdown.js";

const SHOWN = 20; // messages; more come in as many at a time as are here

export function TakenIn({ item }) {
  const [count, setCount] = useState(SHOWN);
  const hidden = Math.max(0, item.messages.length - count);
  return html`
    ${hidden > 0 &&
    html`<button class="plain earlier" onClick=${() => setCount(2 * count)}>${t("earlier-messages", { count: hidden })}</button>`}
    ${item.messages.slice(hidden).map(
      (message, index) => html`
        <article
          key=${hidden + index}
          class=${message.role === "user" ? "user-message" : "answer"}
          aria-label=${message.role === "user" ? t("you") : String(message.role)}
        >
          <${Markdown} text=${message.content} />
        </article>
      `,
    )}
  `;
}
