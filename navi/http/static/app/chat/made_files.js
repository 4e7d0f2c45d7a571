// The files that a tool made, in its card: what it was told to write, or what changed while it ran.

import { Problem, get, pathOf } from "../api.js";
import { html, useEffect, useState } from "../html.js";
import { size, t } from "../strings.js";
import { File, addressIn } from "./pictures.js";

const MOST = 20; // files of a card
const GRAIN = 50; // ms that a file's time may stand before the moment at which it was written

export function MadeFiles({ item, session }) {
  const [files, setFiles] = useState([]);
  useEffect(() => {
    get(pathOf(session.id, "workspace")).then(
      (listing) => setFiles(listing.files.filter((file) => isOf(item, file))),
      (error) => {
        if (!(error instanceof Problem)) throw error; // the card is none the worse
      },
    );
  }, [item.until]);
  if (!files.length) return null;
  return html`
    <section class="made-files">
      <h3>${t("made-files", { count: files.length })}</h3>
      <ul class="files">
        ${files.slice(0, MOST).map(
          (file) => html`<li key=${file.path}>
            <${File} name=${file.path} address=${addressIn(session, file.path)} about=${size(file.size_bytes)} />
          </li>`,
        )}
      </ul>
      ${files.length > MOST && html`<p class="fine">${t("made-files-more", { count: files.length - MOST })}</p>`}
    </section>
  `;
}

// Tools say which file they write or do not: then it is the file that was last changed while they ran.
function isOf(item, { path, changed_at: changedAt }) {
  if (item.name === "filesystem") return path === item.arguments.path?.split("/").filter((part) => part && part !== ".").join("/");
  const changed = Date.parse(changedAt);
  return Date.parse(item.from) - GRAIN <= changed && changed <= Date.parse(item.until);
}
