// Files on their way into a session: by button, drop or paste, with progress, cancelled or refused.

import { Problem, get, pathOf, post } from "../api.js";
import { html, signal } from "../html.js";
import { newId } from "../ids.js";
import { CrossIcon, FileIcon } from "../icons.js";
import { keep, kept, onKeptElsewhere } from "../kept.js";
import { notLoaded } from "../lazy.js";
import { profiles } from "../session/profiles.js";
import { t } from "../strings.js";
import { focusInput } from "./reading.js";

const NEW = "new";

const places = new Map(); // the name that what is there is kept under: its `Attached`

/** The files of the message that is written in a session, or, at "new", of the first one of one to come. */
export function attachedAt(place) {
  const name = `files.${place}`;
  if (!places.has(name)) places.set(name, new Attached(place, name));
  return places.get(name);
}

// They outlive the input: what is under way goes on while one looks at something else.
class Attached {
  constructor(place, name) {
    this._place = place;
    this._name = name;
    this._queue = Promise.resolve();
    /** `{key, name, state: "coming" | "there" | "refused", progress, why}` each. */
    this.files = signal([]);
    this.follow();
  }

  get names() {
    return this.files.value.filter(isThere).map((file) => file.name);
  }

  get isBusy() {
    return this.files.value.some((file) => file.state === "coming");
  }

  /** Take in files of a button, a drop or a paste; one after the other. */
  add(list) {
    for (const file of list) {
      const key = newId();
      this._set([...this.files.value, { key, name: file.name || t("unnamed-file"), state: "coming", progress: 0 }]);
      this._queue = this._queue.then(() => this._upload(file, key));
    }
  }

  /** Name files that the session has already. */
  put(names) {
    const there = this.names;
    const more = names.filter((name) => !there.includes(name));
    this._set([...this.files.value, ...more.map(asThere)]);
  }

  remove(key) {
    this._find(key)?.cancel?.();
    this._set(this.files.value.filter((file) => file.key !== key));
  }

  /** Forget those that are in a session: of these names, or all. */
  forget(names = this.names) {
    this._set(this.files.value.filter((file) => !isThere(file) || !names.includes(file.name)));
  }

  /** Leave what is there to the input of the session that it is in: something was said there. */
  leaveTo(sessionId, names = this.names) {
    this.forget(names);
    attachedAt(sessionId).put(names);
  }

  /** Take what is there from what is kept: another tab has changed it. */
  follow() {
    this.files.value = [...kept(this._name, []).map(asThere), ...this.files.value.filter((file) => !isThere(file))];
  }

  _find(key) {
    return this.files.value.find((file) => file.key === key);
  }

  _set(files) {
    this.files.value = files;
    keep(this._name, this.names.length ? this.names : null);
  }

  _change(key, values) {
    this._set(this.files.value.map((file) => (file.key === key ? { ...file, ...values } : file)));
  }

  async _upload(file, key) {
    if (!this._find(key)) return; // taken away while it waited
    try {
      const { send } = await import("./upload.js").catch(() => {
        notLoaded();
        throw new Error(t("not-loaded"));
      });
      const sessionId = this._place === NEW ? await sessionToCome() : this._place;
      if (!this._find(key)) return;
      const sending = send(sessionId, file, (progress) => this._change(key, { progress }));
      this._change(key, { cancel: sending.cancel });
      const name = await sending.name;
      this._change(key, { name, state: "there" });
      if (this._place === NEW && kept("made") !== sessionId) this.leaveTo(sessionId, [name]);
    } catch (error) {
      this._change(key, { state: "refused", why: error.message });
    }
  }
}

onKeptElsewhere((name) => places.get(name)?.follow());

const isThere = (file) => file.state === "there";
const asThere = (name) => ({ key: newId(), name, state: "there" });

/**
 * The session that was made for files of a first message, or null: where there is none any more, or
 * something was said in it meanwhile, what was attached is forgotten with it.
 */
export async function madeAhead() {
  const made = kept("made");
  if (!made) return null;
  try {
    if (!(await get(`${pathOf(made, "messages")}?limit=1`)).messages.length) return made;
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 404) throw error;
  }
  if (kept("made") === made) {
    keep("made", null);
    attachedAt(NEW).forget();
  }
  return null;
}

/** Where files of a session that is not there yet go: it is made, and waits for its first message. */
async function sessionToCome() {
  const made = await madeAhead();
  if (made) return made;
  const profile = kept("profile");
  const { id } = await post("/sessions", profiles.value.has(profile) ? { profile_id: profile } : {});
  keep("made", id);
  return id;
}

/** What is attached, each with a way to take it away. */
export function Attachments({ attachments }) {
  const files = attachments.files.value;
  if (!files.length) return null;
  return html`
    <ul class="attachments">
      ${files.map(
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
