// What a model said in one call, with what it thought before.

import { html, memo } from "../html.js";
import { ForkIcon } from "../icons.js";
import { isForeign } from "../session/me.js";
import { profileName } from "../session/profiles.js";
import { t } from "../strings.js";
import { CopyButton } from "./copy_button.js";
import { Markdown } from "./markdown.js";
import { Thinking } from "./thinking.js";

export const Answer = memo(({ item, session, isNamed, isInner }) => {
  // In an old log, of which the beginning is not here, only the session says.
  const name = profileName(item.profileId ?? session.row.value?.profile_id);
  const thinking =
    item.thinking && html`<${Thinking} text=${item.thinking} from=${item.thinkingFrom} until=${item.thinkingUntil} />`;
  const failed = item.error && (item.error.willRetry || isInner) && html`<p class="failed-call fine" dir="auto">${failureOf(item.error)}</p>`;
  if (!item.text) return (thinking || failed) && html`<div class="answer">${thinking}${failed}</div>`;
  return html`
    ${thinking}
    <article class="answer" aria-label=${name} aria-busy=${item.isOpen}>
      <header class=${isNamed ? "" : "hidden"}><h2>${name}</h2></header>
      <${Markdown} text=${item.text} isOpen=${item.isOpen} />
      ${failed}
      ${!item.isOpen &&
      html`<div class="message-actions">
        <${CopyButton} text=${item.text} />
        ${!isInner && !isForeign(session) &&
        html`<button class="plain icon-only" aria-label=${t("fork-after")} title=${t("fork-after")} onClick=${() => session.fork(item)}>
          <${ForkIcon} />
        </button>`}
      </div>`}
    </article>
  `;
});

function failureOf(error) {
  return t(error.willRetry ? "call-failed-again" : "call-failed", { why: error.text });
}
