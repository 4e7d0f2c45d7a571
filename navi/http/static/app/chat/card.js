// A card: one line that opens to what is behind it.

import { html, useState } from "../html.js";
import { ChevronIcon } from "../icons.js";

/**
 * A group with a name, and a line that opens it.
 *
 * `line` stands in the line, `beside` below it whether it is open or not, the children only while it is open.
 */
export function Card({ name, kind, state, line, beside, isOpenAtFirst = false, open, children, headRef }) {
  const [chosen, setChosen] = useState(null); // what the reader chose, if anything
  const [first] = useState(isOpenAtFirst);
  const isOpen = chosen ?? open ?? first;
  return html`
    <div role="group" aria-label=${name} class=${`card ${kind}`} data-state=${state}>
      <button class="plain card-head" aria-expanded=${isOpen} ref=${headRef} onClick=${() => setChosen(!isOpen)}>
        <span class="chevron"><${ChevronIcon} /></span>${line}
      </button>
      ${beside} ${isOpen && html`<div class="card-body">${typeof children === "function" ? children() : children}</div>`}
    </div>
  `;
}
