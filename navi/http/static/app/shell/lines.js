// What goes on, and what went wrong, in a line each.

import { close, status, trouble } from "../announce.js";
import { html, useRef } from "../html.js";
import { t } from "../strings.js";

/** What goes on, for screen readers; what went wrong, for everybody. */
export function Lines() {
  const shown = trouble.value;
  const before = useRef(null);
  const shut = ({ currentTarget }) => {
    close();
    // The button goes. Not all browsers focus what is clicked: the focus may be elsewhere, and stays there.
    if (currentTarget === document.activeElement) before.current?.focus();
  };
  return html`
    <p role="status" class="hidden">${status}</p>
    ${shown &&
    html`
      <div
        role=${shown.mild ? "note" : "alert"}
        class=${shown.mild ? "trouble mild" : "trouble"}
        onFocusIn=${({ currentTarget, relatedTarget }) => {
          if (!currentTarget.contains(relatedTarget)) before.current = relatedTarget;
        }}
      >
        <span>${shown.text}</span>
        ${shown.actions.map(
          ({ name, run }) => html`<button
            onClick=${() => {
              close();
              run();
            }}
          >
            ${name}
          </button>`,
        )}
        <button class="plain" onClick=${shut}>${t("close")}</button>
      </div>
    `}
  `;
}
