// Pictures and files of a session: those that messages name, those that were shown to a model, and those
// that tools made. A picture opens large.

import { pathOf } from "../api.js";
import { html, useState } from "../html.js";
import { FileIcon } from "../icons.js";
import { lazy } from "../lazy.js";
import { t } from "../strings.js";

const PICTURES = /\.(png|p?jpe?g?|jfif|webp|gif)$/i;

const Large = lazy(() => import("./picture_dialog.js").then((module) => module.PictureDialog), { isQuiet: true });

/** What a tool put before the model, as the model got it, whatever became of the file. */
export function Pictures({ session, pictures }) {
  return html`
    <ul class="files">
      ${pictures.map(
        ({ seq, path, width, height }) => html`<li key=${seq}>
          <${Picture}
            name=${path}
            address=${pathOf(session.id, "pictures", String(seq))}
            original=${addressIn(session, path)}
            about=${t("picture-shown", { width, height })}
          />
        </li>`,
      )}
    </ul>
  `;
}

/** The files that a message names. */
export function Files({ session, names }) {
  return html`<ul class="files">
    ${names.map((name) => html`<li key=${name}><${File} name=${name} address=${pathOf(session.id, "files", name)} /></li>`)}
  </ul>`;
}

/** The address of a file of the session's directory. */
export function addressIn(session, path) {
  return pathOf(session.id, "workspace", ...path.split("/"));
}

/** A file: a picture to look at, anything else to be had; `about` stands beside its name. */
export function File({ name, address, about }) {
  const View = PICTURES.test(name) ? Picture : Link;
  return html`<${View} name=${name} address=${address} original=${address} about=${about} />`;
}

function Link({ name, original, about }) {
  return html`<a class="file" href=${original} download=${name.split("/").at(-1)} title=${name}>
    <${FileIcon} /> <span dir="auto">${name}</span> ${about && html`<span class="fine">${about}</span>`}
  </a>`;
}

function Picture({ name, address, original, about }) {
  const [isMissing, setMissing] = useState(false);
  const [isLarge, setLarge] = useState(false);
  if (isMissing) return html`<${Link} name=${name} original=${original} about=${about} />`;
  return html`
    <button class="plain file" title=${name} aria-haspopup="dialog" onClick=${() => setLarge(true)}>
      <img src=${address} alt=${name} loading="lazy" onError=${() => setMissing(true)} />
    </button>
    ${isLarge &&
    html`<${Large} name=${name} address=${address} original=${original} about=${about} onClose=${() => setLarge(false)} />`}
  `;
}
