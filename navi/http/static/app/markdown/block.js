// A block of Markdown as nodes: paragraph, heading, list, table, quote, code.

import { CodeBlock } from "../chat/code_block.js";
import { html, memo } from "../html.js";
import { t } from "../strings.js";
import { Inline, plain } from "./inline.js";

/** A block; drawn again only when its source is another, or what its links lead to. */
export const Block = memo(
  ({ token, links, isSettled, isLive }) => drawn(token, { links, isSettled, isLive }),
  (before, after) => before.token.raw === after.token.raw && before.token.type === after.token.type && before.links === after.links && before.isSettled === after.isSettled,
);

const Item = memo(
  ({ item, links, isSettled, isLive }) => {
    const content = drawnAll(item.tokens, { links, isSettled, isLive });
    if (!item.task) return html`<li>${content}</li>`;
    return html`<li class="task">
      <input type="checkbox" checked=${item.checked} disabled aria-label=${t(item.checked ? "task-done" : "task-open")} />
      <div>${content}</div>
    </li>`;
  },
  (before, after) => before.item.raw === after.item.raw && before.item.loose === after.item.loose && before.links === after.links && before.isSettled === after.isSettled,
);

const Row = memo(
  ({ cells, tag, links, isLive }) => html`<tr>
    ${cells.map((cell, index) => html`<${tag} key=${index} dir="auto" class=${cell.align ?? undefined} scope=${tag === "th" ? "col" : undefined}>${text(cell, { links, isLive })}<//>`)}
  </tr>`,
  (before, after) =>
    before.links === after.links &&
    before.cells.length === after.cells.length &&
    before.cells.every((cell, index) => cell.text === after.cells[index].text && cell.align === after.cells[index].align),
);

function drawnAll(tokens, how) {
  return tokens.map((token, index) => html`<${Inner} key=${index} token=${token} ...${how} />`);
}

const Inner = ({ token, links, isSettled, isLive }) => drawn(token, { links, isSettled, isLive });

function drawn(token, how) {
  return (DRAWN[token.type] ?? asWritten)(token, how);
}

function text(token, { links, isLive }) {
  if (token.tokens?.some((inner) => inner.type === "plain")) return plain(token.text, isLive);
  const [first] = token.tokens ?? [];
  const shown = first?.type === "checkbox" ? token.text.slice(first.raw.length) : token.text;
  return html`<${Inline} text=${shown} links=${links} isLive=${isLive} />`;
}

const asWritten = (token, { isLive }) => html`<p class="as-written" dir="auto">${plain(token.raw.replace(/\n+$/, ""), isLive)}</p>`;

const DRAWN = {
  space: () => null,
  def: () => null,
  checkbox: () => null,
  hr: () => html`<hr />`,
  paragraph: (token, how) => html`<p dir="auto">${text(token, how)}</p>`,
  text: (token, how) => html`<span dir="auto">${text(token, how)}</span>`,
  // A message has a heading of its own: those within it are below.
  heading: (token, how) => html`<div role="heading" aria-level=${Math.min(6, token.depth + 3)} class=${`heading h${token.depth}`} dir="auto">${text(token, how)}</div>`,
  blockquote: (token, how) => html`<blockquote>${drawnAll(token.tokens, how)}</blockquote>`,
  code: (token, { isSettled, isLive }) =>
    html`<${CodeBlock} code=${token.text.replace(/\n$/, "")} language=${token.lang ?? ""} isSettled=${isSettled} isLive=${isLive} />`,
  html: (token, how) => (/^<br\s*\/?>\s*$/i.test(token.raw) ? html`<br />` : asWritten(token, how)),
  list(token, how) {
    const items = token.items.map((item, index) => html`<${Item} key=${index} item=${item} ...${how} />`);
    if (!token.ordered) return html`<ul dir="auto">${items}</ul>`;
    return html`<ol start=${token.start === 1 ? undefined : token.start} dir="auto">${items}</ol>`;
  },
  table: (token, { links, isLive }) => html`<div class="table" tabindex="0" role="group" aria-label=${t("table")}>
    <table>
      <thead>
        <${Row} cells=${token.header} tag="th" links=${links} isLive=${isLive} />
      </thead>
      <tbody>
        ${token.rows.map((cells, index) => html`<${Row} key=${index} cells=${cells} tag="td" links=${links} isLive=${isLive} />`)}
      </tbody>
    </table>
  </div>`,
};
