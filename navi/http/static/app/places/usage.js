// Not there yet.

import { html } from "../html.js";
import { t } from "../strings.js";

export function Place() {
  return html`<p class="hint">${t("not-yet")}</p>`;
}
