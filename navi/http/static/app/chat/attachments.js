// Files on their way into a session: by button, drop or paste, with progress, cancelled or refused.

import { pathOf, signedOut } from "../api.js";
import { html, useRef, useState } from "../html.js";
import { newId } from "../ids.js";
import { CrossIcon, FileIcon } from "../icons.js";
import { keep, kept } from "../kept.js";
import { t } from "../strings.js";
import { focusInput } from "./reading.js";

/**
 * The files of a message that is being written.
 *
 * `sessionFor()` gives the id of the session that they go to; what is there already is kept under `name`.
 */
export function useAttachments(name, sessionFor) {
  const [files, setFiles] = useState(() => kept(name, []).map((file) => ({ key: file, name: file, state: "there" })));
  const here = useRef(files);
  const queue = useRef(Promise.resolve());

  const set = (change) => {
    here.current = change(here.current);
    setFiles(here.current);
    const there = here.current.filter((file) => file.state === "there").map((file) => file.name);
    keep(name, there.length ? there : null);
  };
  const change = (key, values) => set((all) => all.map((file) => (file.key === key ? { ...file, ...values } : file)));

  const upload = async (file, key) => {
    if (!here.current.some((other) => other.key === key)) return; // taken away while it waited
    try {
      const sessionId = await sessionFor();
      const sending = send(sessionId, file, (progress) => change(key, { progress }));
      change(key, { cancel: sending.cancel });
      const given = await sending.name;
      change(key, { state: "there", name: given, progress: 1 });
    } catch (error) {
      change(key, { state: "refused", why: error.message });
    }
  };

  return {
    files,
    names: files.filter((file) => file.state === "there").map((file) => file.name),
    isBusy: files.some((file) => file.state === "coming"),
    /** Take in files of a button, a drop or a paste; one after the other. */
    add(list) {
      for (const file of list) {
        const key = newId();
        set((all) => [...all, { key, name: file.name || t("unnamed-file"), state: "coming", progress: 0 }]);
        queue.current = queue.current.then(() => upload(file, key));
      }
    },
    /** Name files that the session has already. */
    put(names) {
      const more = names.filter((other) => !here.current.some((file) => file.name === other && file.state === "there"));
      set((all) => [...all, ...more.map((other) => ({ key: newId(), name: other, state: "there" }))]);
    },
    remove(key) {
      here.current.find((file) => file.key === key)?.cancel?.();
      set((all) => all.filter((file) => file.key !== key));
    },
    clear() {
      set(() => []);
    },
  };
}

/** What is attached, each with a way to take it away. */
export function Attachments({ attachments }) {
  if (!attachments.files.length) return null;
  return html`
    <ul class="attachments">
      ${attachments.files.map(
        (file) => html`
          <li key=${file.key} data-state=${file.state}>
            <${FileIcon} /> <span class="file-name" dir="auto">${file.name}</span>
            ${file.state === "coming" &&
            html`<progress aria-label=${t("uploading", { name: file.name })} value=${file.progress} max="1"></progress>`}
            ${file.state === "refused" && html`<span role="alert" class="problem">${file.why}</span>`}
            <button
              type="button"
              class="plain icon-only"
              aria-label=${t(file.state === "coming" ? "cancel-file" : "take-away", { name: file.name })}
              onClick=${() => {
                attachments.remove(file.key);
                focusInput(); // the button goes
              }}
            >
              <${CrossIcon} />
            </button>
          </li>
        `,
      )}
    </ul>
  `;
}

// By XMLHttpRequest, because `fetch` does not tell how much was sent.
function send(sessionId, file, onProgress) {
  const request = new XMLHttpRequest();
  const name = new Promise((resolve, reject) => {
    const fail = (why) => reject(new Error(why));
    request.open("POST", pathOf(sessionId, "files"));
    request.responseType = "json";
    request.upload.onprogress = (event) => event.lengthComputable && onProgress(event.loaded / event.total);
    request.onload = () => {
      if (request.status === 401) signedOut.value = true;
      if (request.status === 201) resolve(request.response.files[0].name);
      else fail(request.response?.detail ?? t("answered-with", { status: request.status }));
    };
    request.onerror = () => fail(t("no-answer"));
    request.onabort = () => fail(t("cancelled"));
    const form = new FormData();
    form.append("file", file, file.name || t("unnamed-file"));
    request.send(form);
  });
  return { name, cancel: () => request.abort() };
}
