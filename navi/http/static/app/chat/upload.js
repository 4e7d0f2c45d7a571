// One file on its way into a session.

import { logins, pathOf, signedOut } from "../api.js";
import { t } from "../strings.js";

const SILENCE = 60_000; // ms without progress after which it is given up

/**
 * Send a file: `{name, cancel()}`, where `name` is a promise of what it is called there. `onProgress` is
 * told the share that was sent, 0 to 1.
 *
 * By XMLHttpRequest, because `fetch` does not tell how much was sent.
 */
export function send(sessionId, file, onProgress) {
  const request = new XMLHttpRequest();
  const login = logins;
  const name = new Promise((resolve, reject) => {
    const fail = (why) => reject(new Error(why));
    request.open("POST", pathOf(sessionId, "files"));
    request.responseType = "json";
    let timer;
    const wait = () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        fail(t("no-answer"));
        request.abort();
      }, SILENCE);
    };
    request.upload.onprogress = (event) => {
      wait();
      if (event.lengthComputable) onProgress(event.loaded / event.total);
    };
    request.onloadend = () => clearTimeout(timer);
    request.onload = () => {
      if (request.status === 401 && login === logins) signedOut.value = true;
      if (request.status === 201) resolve(request.response.files[0].name);
      else fail(request.response?.detail ?? t("answered-with", { status: request.status }));
    };
    request.onerror = () => fail(t("no-answer"));
    request.onabort = () => fail(t("cancelled"));
    const form = new FormData();
    form.append("file", file, file.name || t("unnamed-file"));
    request.send(form);
    wait();
  });
  return { name, cancel: () => request.abort() };
}
