// What a tool call would do, as navi made it: a command, a request, or the difference to a file in colours.

import { html } from "../html.js";

const HUNK = /^@@ .* @@/m;

export function Preview({ text }) {
  if (!HUNK.test(text)) return html`<pre tabindex="0" dir="auto" class="preview">${text}</pre>`;
  return html`<pre tabindex="0" class="preview difference">${text.split("\n").map((line, index) => html`<span key=${index} class=${kindOf(line)}>${line}${"\n"}</span>`)}</pre>`;
}

function kindOf(line) {
  if (line.startsWith("+++") || line.startsWith("---") || line.startsWith("@@")) return "hunk";
  if (line.startsWith("+")) return "added";
  return line.startsWith("-") ? "removed" : "same";
}
