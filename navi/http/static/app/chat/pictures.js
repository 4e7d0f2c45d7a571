// Pictures and files of a session: those that messages name, and those that were shown to a model.

import { pathOf } from "../api.js";
import { html, useState } from "../html.js";
import { FileIcon } from "../icons.js";
import { t } from "../strings.js";

const PICTURES = /\.(png|jpe?g|webp|gif)$/i;
const UPLOADS = "uploads/"; // where the session's files lie in its workspace

/** What a tool put before the model; what lies elsewhere than among the session's files by its name. */
export function Pictures({ session, pictures }) {
  return html`
    <ul class="files">
      ${pictures.map((picture) => {
        const name = picture.path.startsWith(UPLOADS) ? picture.path.slice(UPLOADS.length) : null;
        return html`<li key=${picture.sha256}>
          ${name && !name.includes("/")
            ? html`<${File} session=${session} name=${name} />`
            : html`<span class="file"><${FileIcon} /> ${t("picture-shown", { path: picture.path, width: picture.width, height: picture.height })}</span>`}
        </li>`;
      })}
    </ul>
  `;
}

/** The files that a message names. */
export function Files({ session, names }) {
  return html`<ul class="files">${names.map((name) => html`<li key=${name}><${File} session=${session} name=${name} /></li>`)}</ul>`;
}

function File({ session, name }) {
  const [isMissing, setMissing] = useState(false);
  const address = pathOf(session.id, "files", name);
  return html`
    <a class="file" href=${address} download=${name} title=${name}>
      ${PICTURES.test(name) && !isMissing
        ? html`<img src=${address} alt=${name} loading="lazy" onError=${() => setMissing(true)} />`
        : html`<${FileIcon} /> <span dir="auto">${name}</span>`}
    </a>
  `;
}
