// The view "Context" of a session.

import { html } from "../html.js";

export function ContextView() {
  return html`<div class="empty"></div>`;
}
