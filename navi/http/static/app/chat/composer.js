// The input below a conversation.

import { html, useEffect, useRef, useState } from "../html.js";
import { keep, kept } from "../kept.js";
import { t } from "../strings.js";

/**
 * `draftName` is where the draft is kept; `onSend({content, files, mode})` gives whether the message was
 * taken, and only then is the input emptied.
 */
export function Composer({ draftName, isRunning = false, onSend, onStop }) {
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
    if (await onSend({ content, files: [], mode })) change("");
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
              <button type="button" onClick=${onStop}>${t("stop")}</button>
              <button type="button" onClick=${() => send("steer")}>${t("steer")}</button>
              <button class="primary">${t("queue")}</button>
            `
          : html`<button class="primary">${t("send")}</button>`}
      </div>
    </form>
  `;
}
