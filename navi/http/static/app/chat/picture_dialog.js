// A picture as large as the window takes it, with a way to have the file.

import { html } from "../html.js";
import { Modal } from "../shell/dialogs.js";
import { t } from "../strings.js";

export function PictureDialog({ name, address, original, about, onClose }) {
  return html`
    <${Modal} className="large-picture" label=${name} onClose=${onClose}>
      <header>
        <h2 dir="auto">${name}</h2>
        ${about && html`<span class="fine">${about}</span>`}
        <div class="actions">
          <a class="button" href=${original} download=${name.split("/").at(-1)}>${t("download")}</a>
          <form method="dialog"><button>${t("close")}</button></form>
        </div>
      </header>
      <img src=${address} alt=${name} />
    <//>
  `;
}
