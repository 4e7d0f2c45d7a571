// A tool that waits for a person to decide, and what was decided.

import { Problem, pathOf, post } from "../api.js";
import { html, useEffect, useId, useLayoutEffect, useRef, useState } from "../html.js";
import { isForeign, me } from "../session/me.js";
import { isComposed } from "../shell/keys.js";
import { t } from "../strings.js";
import { Preview } from "./preview.js";

/** The question, while it waits; the focus goes from it to `after`. Who only reads is not asked: see `isForeign`. */
export function Approval({ item, session, after }) {
  const box = useRef();
  if (!item.approval || item.approval.decision || item.state !== "waiting") return null;
  const { reason, preview } = item.approval;
  return html`
    <div role="group" aria-label=${t("approval")} class="approval" ref=${box}>
      <p class="asked"><strong>${t("approval")}</strong> <span dir="auto">${reason}</span></p>
      <${Preview} text=${preview ?? ""} />
      ${session.moment.value === null &&
      !isForeign(session) &&
      html`<${Question} item=${item} session=${session} box=${box} after=${after} />`}
    </div>
  `;
}

function Question({ item, session, box, after }) {
  const [edited, setEdited] = useState(null); // the arguments as JSON, while they are edited
  const [note, setNote] = useState(null); // the reason of a denial, while it is written
  const [problem, setProblem] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const isAnsweredHere = useRef(false);
  const id = useId();
  const field = useRef();
  const [editButton, denyButton] = [useRef(), useRef()];
  const left = useRef(null); // the button to which the focus goes back
  useEffect(() => (field.current ?? left.current?.current)?.focus(), [edited === null, note === null]);
  useLayoutEffect(() => {
    const whole = box.current;
    // Wherever it is answered: whoever writes here goes on writing nowhere, and not as shortcuts.
    return () => (isAnsweredHere.current || whole.contains(document.activeElement)) && after?.current?.focus();
  }, []);

  const decide = async (decision) => {
    setBusy(true);
    setProblem(null);
    isAnsweredHere.current = true; // before the response: the event of the decision may come first
    try {
      await post(pathOf(session.id, "approvals", item.callId), decision);
    } catch (error) {
      isAnsweredHere.current = false;
      if (!(error instanceof Problem)) throw error;
      setProblem(error.message);
    } finally {
      setBusy(false);
    }
  };
  const allow = (scope) => {
    if (edited === null) return decide({ decision: "allow", scope });
    const read = argumentsOf(edited);
    if (read.problem) {
      setProblem(read.problem);
      return field.current.focus();
    }
    return decide({ decision: "allow", scope, arguments: read.value });
  };
  const edit = () => {
    if (isExact(item.arguments)) setEdited(JSON.stringify(item.arguments, null, 2));
    else setProblem(t("arguments-inexact"));
  };
  const deny = (event) => {
    event.preventDefault();
    decide({ decision: "deny", ...(note.trim() ? { note: note.trim() } : {}) });
  };
  const cancel = () => {
    left.current = note === null ? editButton : denyButton;
    setNote(null);
    setEdited(null);
    setProblem(null);
  };
  const onKeyDown = (event) => {
    if (event.key !== "Escape" || isComposed(event)) return;
    event.stopPropagation();
    cancel();
  };
  const told = problem ? { "aria-invalid": "true", "aria-describedby": id } : {};
  return html`
    ${edited !== null &&
    html`<label>
      ${t("arguments")}
      <textarea
        class="code"
        rows=${Math.min(14, edited.split("\n").length + 1)}
        spellcheck="false"
        value=${edited}
        ref=${field}
        onInput=${({ target }) => setEdited(target.value)}
        onKeyDown=${onKeyDown}
        ...${told}
      ></textarea>
    </label>`}
    ${problem && html`<p role="alert" class="problem" id=${id}>${problem}</p>`}
    ${note === null
      ? html`<div class="actions">
          <button class="primary" disabled=${isBusy} onClick=${() => allow("once")}>${t("allow")}</button>
          <button disabled=${isBusy} onClick=${() => allow("session")}>${t("allow-session")}</button>
          <button
            ref=${editButton}
            aria-pressed=${edited !== null}
            onClick=${edited === null ? edit : cancel}
          >
            ${t("edit")}
          </button>
          <button ref=${denyButton} disabled=${isBusy} onClick=${() => setNote("")}>${t("deny")}</button>
        </div>`
      : html`<form class="actions" onSubmit=${deny}>
          <label class="wide">
            ${t("deny-reason")}
            <input
              maxlength="2000"
              placeholder=${t("deny-reason-hint")}
              value=${note}
              ref=${field}
              onInput=${({ target }) => setNote(target.value)}
              onKeyDown=${onKeyDown}
            />
          </label>
          <button class="danger" disabled=${isBusy}>${t("deny")}</button>
          <button type="button" onClick=${cancel}>${t("cancel")}</button>
        </form>`}
  `;
}

/** What was decided, by whom, in words. */
export function Decision({ approval }) {
  if (!approval?.decision) return null;
  const name = approval.decision === "deny" ? "decided-deny" : approval.scope === "session" ? "decided-session" : "decided-allow";
  return html`<p class="decision fine" dir="auto">
    ${t(name, { by: approval.by === me.value?.id ? t("by-you") : (approval.by ?? "") })}${approval.isEdited ? ` · ${t("decided-edited")}` : ""}${approval.note ? ` · ${approval.note}` : ""}
  </p>`;
}

/** Whether no number of a JSON value may be another than was written: larger integers are rounded when they are read. */
export function isExact(value) {
  if (Number.isInteger(value)) return Number.isSafeInteger(value);
  return value === null || typeof value !== "object" || Object.values(value).every(isExact);
}

/** The arguments that somebody wrote, `{value}`, or `{problem}` in words. */
export function argumentsOf(text) {
  try {
    const value = JSON.parse(text);
    if (!isExact(value)) return { problem: t("arguments-inexact") };
    if (value !== null && typeof value === "object" && !Array.isArray(value)) return { value };
    return { problem: t("arguments-no-object") };
  } catch (error) {
    return { problem: t("arguments-no-json", { why: error.message }) };
  }
}
