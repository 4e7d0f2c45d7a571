// A message of a person.

import { html } from "../html.js";
import { t } from "../strings.js";

const RECEIPTS = { delivered: "delivered", withdrawn: "withdrawn", sending: "sending" };

export function UserMessage({ item }) {
  const receipt = item.state === "waiting" ? (item.mode === "steer" ? "with-the-next-call" : "queued") : RECEIPTS[item.state];
  return html`
    <article class="user-message" aria-label=${t("you")} data-state=${item.state}>
      <header><h3>${t("you")}</h3> <span class="receipt">${t(receipt)}</span></header>
      <div class="said" dir="auto">${item.content}</div>
      ${item.files?.length > 0 && html`<ul class="files">${item.files.map((file) => html`<li key=${file}>${file}</li>`)}</ul>`}
    </article>
  `;
}
