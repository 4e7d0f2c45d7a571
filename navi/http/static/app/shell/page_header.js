// The line above everything that is open: the way to the sessions, and what this is.

import { html } from "../html.js";
import { DrawerButton } from "./drawer.js";

export function PageHeader({ title, children }) {
  return html`
    <header class="page-header">
      <${DrawerButton} />
      ${title && html`<h1 dir="auto">${title}</h1>`}
      ${children}
    </header>
  `;
}
