// What stands where there is nothing else to show, and so is the heading of the page: what it is, and what one can do.

import { html } from "../html.js";

export function Notice({ icon, title, text, role, children }) {
  return html`
    <div class="notice" role=${role}>
      ${icon && html`<${icon} />`}
      ${title && html`<h1>${title}</h1>`}
      ${text && html`<p>${text}</p>`}
      ${children && html`<div class="actions">${children}</div>`}
    </div>
  `;
}
