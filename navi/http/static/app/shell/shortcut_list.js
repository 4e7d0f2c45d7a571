// The keys that do something, in a dialog.

import { html } from "../html.js";
import { chooseShortcuts, shortcuts } from "../preferences.js";
import { t } from "../strings.js";
import { Modal } from "./dialogs.js";
import { Keys, withKeys } from "./keys.js";

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
      <label class="choice">
        <input type="checkbox" checked=${shortcuts.value} onChange=${({ target }) => chooseShortcuts(target.checked)} />
        ${t("shortcuts-on")}
      </label>
    <//>
  `;
}
