// The input below a conversation.

import { html, useEffect, useRef, useState } from "../html.js";
import { keep, kept } from "../kept.js";
import { t } from "../strings.js";

/**
 * The input of a session, or, with `onBegin({content, files, profileId})`, of one that begins with it.
 *
 * The input is emptied once the message was taken: `onBegin` gives whether it was.
 */
export function Composer({ session = null, isRunning = false, onBegin }) {
  const draftName = `draft.${session?.id ?? "new"}`;
  const [draft, setDraft] = useState(() => kept(draftName, ""));
  const input = useRef();
  useEffect(() => input.current.focus(), []);
  const change = (text) => {
    setDraft(text);
    keep(draftName, text || null);
  };
  const send = async (mode) => {
    const content = draft.trim();
    if (!content) return;
    if (session) session.outbox.send({ content, mode });
    else if (!(await onBegin({ content, files: [] }))) return;
    change("");
    input.current?.focus();
  };
  const onKeyDown = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send("queue");
  };
  return html`
    <form
      class="composer"
      onSubmit=${(event) => {
        event.preventDefault();
        send("queue");
      }}
    >
      <textarea
        ref=${input}
        rows="1"
        aria-label=${t("message")}
        placeholder=${t("message-hint")}
        value=${draft}
        onInput=${({ target }) => change(target.value)}
        onKeyDown=${onKeyDown}
      ></textarea>
      <div class="actions">
        ${isRunning
          ? html`
              <button type="button" onClick=${() => session.stop()}>${t("stop")}</button>
              <button type="button" onClick=${() => send("steer")}>${t("steer")}</button>
              <button class="primary">${t("queue")}</button>
            `
          : html`<button class="primary">${t("send")}</button>`}
      </div>
    </form>
  `;
}
