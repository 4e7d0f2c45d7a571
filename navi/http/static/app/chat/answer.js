// What a model said in one call, with what it thought before.

import { html } from "../html.js";
import { profileName } from "../session/profiles.js";
import { Markdown } from "./markdown.js";
import { Thinking } from "./thinking.js";

export function Answer({ item }) {
  const name = profileName(item.profileId);
  if (!item.text && !item.thinking) return item.error && html`<p class="problem">${item.error.text}</p>`;
  const thinking = item.thinking && html`<${Thinking} item=${item} />`;
  if (!item.text) return html`<div class="answer">${thinking}</div>`;
  return html`
    <article class="answer" aria-label=${name} aria-busy=${item.isOpen}>
      <header><h3>${name}</h3></header>
      ${thinking}
      <${Markdown} text=${item.text} isOpen=${item.isOpen} />
      ${item.error && html`<p class="problem">${item.error.text}</p>`}
    </article>
  `;
}
