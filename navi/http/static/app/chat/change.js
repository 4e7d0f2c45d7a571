// Saying a message otherwise: in a fork, so that nothing of this conversation is lost.

import { html, useEffect, useRef, useState } from "../html.js";
import { isComposed } from "../shell/keys.js";
import { t } from "../strings.js";

export function Change({ content, onSay, onEnd }) {
  const [words, setWords] = useState(content);
  const field = useRef();
  useEffect(() => {
    field.current.focus();
    field.current.setSelectionRange(content.length, content.length);
  }, []);
  const say = async (event) => {
    event.preventDefault();
    if (words.trim() && (await onSay(words.trim()))) onEnd();
  };
  const onKeyDown = (event) => {
    if (isComposed(event)) return;
    if (event.key === "Escape") {
      event.stopPropagation();
      onEnd();
    } else if (event.key === "Enter" && !event.shiftKey && !event.altKey) say(event);
  };
  return html`
    <form class="change" onSubmit=${say}>
      <textarea aria-label=${t("new-wording")} dir="auto" rows="2" value=${words} ref=${field} onInput=${({ target }) => setWords(target.value)} onKeyDown=${onKeyDown}></textarea>
      <div class="actions">
        <button class="primary">${t("say-in-fork")}</button>
        <button type="button" onClick=${onEnd}>${t("cancel")}</button>
        <span class="fine">${t("say-in-fork-explained")}</span>
      </div>
    </form>
  `;
}
