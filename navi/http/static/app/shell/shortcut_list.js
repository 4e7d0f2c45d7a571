// The keys that do something, in a dialog.

import { html } from "../html.js";
import { chooseShortcuts, shortcuts } from "../preferences.js";
import { t } from "../strings.js";
import { stylesheet } from "../stylesheet.js";
import { Modal } from "./dialogs.js";
import { Keys, withKeys } from "./keys.js";

await stylesheet("../../style/dialogs.css", import.meta.url);

// What keys do where the focus is: those of the list, the conversation, the input, the slider and the timeline.
const IN_PLACES = [
  {
    place: "sessions",
    keys: [["keys-step", "↑", "↓"], ["rename", "F2"], ["delete", "key-delete"]],
  },
  {
    place: "conversation",
    keys: [["keys-message", "↑", "↓", "J", "K"], ["keys-ends", "key-home", "key-end"], ["go-to-message", "key-escape"]],
  },
  { place: "message", keys: [["stop", "key-escape"]] },
  { place: "moment", keys: [["keys-event", "←", "→"], ["keys-turn", "key-page-up", "key-page-down"]] },
  { place: "timeline", keys: [["keys-bar", "←", "→"], ["keys-zoom", "+", "−", "0"]] },
];

export function ShortcutList({ onClose }) {
  return html`
    <${Modal} label=${t("shortcuts")} className="shortcuts" onClose=${onClose}>
      <header>
        <h2>${t("shortcuts")}</h2>
        <form method="dialog"><button>${t("close")}</button></form>
      </header>
      <dl>
        ${withKeys.map(
          (id) => html`
            <div key=${id}>
              <dt>${id.startsWith("view-") ? t("view", { name: t(id) }) : t(id)}</dt>
              <dd><${Keys} id=${id} /></dd>
            </div>
          `,
        )}
      </dl>
      ${IN_PLACES.map(
        ({ place, keys }) => html`
          <h3>${t(place)}</h3>
          <dl>
            ${keys.map(
              ([what, ...names]) => html`
                <div key=${what}>
                  <dt>${t(what)}</dt>
                  <dd><span class="keys">${names.map((name) => html`<kbd>${t(name)}</kbd>`)}</span></dd>
                </div>
              `,
            )}
          </dl>
        `,
      )}
      <label class="choice">
        <input type="checkbox" checked=${shortcuts.value} onChange=${({ target }) => chooseShortcuts(target.checked)} />
        ${t("shortcuts-on")}
      </label>
    <//>
  `;
}
