// What stands where there is nothing to show: what it is, and what one can do.

import { html } from "../html.js";

export function Notice({ icon, title, text, role, children }) {
  return html`
    <div class="notice" role=${role}>
      ${icon && html`<${icon} />`}
      ${title && html`<h2>${title}</h2>`}
      ${text && html`<p>${text}</p>`}
      ${children && html`<div class="actions">${children}</div>`}
    </div>
  `;
}
