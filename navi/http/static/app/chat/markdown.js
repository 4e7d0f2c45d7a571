// Markdown as nodes.

import { html } from "../html.js";

export function Markdown({ text }) {
  return html`<div class="markdown said" dir="auto">${text}</div>`;
}
