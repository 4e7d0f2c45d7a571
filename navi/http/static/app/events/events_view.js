// The view "Events" of a session.

import { html } from "../html.js";

export function EventsView() {
  return html`<div class="empty"></div>`;
}
