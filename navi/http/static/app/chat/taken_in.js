// A conversation that another program had before it came here.

import { html } from "../html.js";
import { t } from "../strings.js";
import { Markdown } from "./markdown.js";

export function TakenIn({ item }) {
  return item.messages.map(
    (message, index) => html`
      <article key=${index} class=${message.role === "user" ? "user-message" : "answer"} aria-label=${message.role === "user" ? t("you") : message.role}>
        <${Markdown} text=${message.content} />
      </article>
    `,
  );
}
