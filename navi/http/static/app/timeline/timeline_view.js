// The view "Timeline" of a session.

import { html } from "../html.js";

export function TimelineView() {
  return html`<div class="empty"></div>`;
}
