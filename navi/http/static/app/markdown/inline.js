// The text within a block: emphasis, code, links, pictures. All of it becomes nodes and text, never markup.

import { OutsideIcon, PictureIcon } from "../icons.js";
import { html, memo } from "../html.js";
import { current } from "../session/open_session.js";
import { t } from "../strings.js";
import { honest, linkOf, pictureOf } from "./addresses.js";
import { decoded, lexInline } from "./lex.js";
import { Words } from "./words.js";

const LONGEST_ADDRESS = 80; // characters shown of an address that leads nowhere

/** A text with its marks; `isLive` where it may still grow. */
export const Inline = memo(({ text, links, isLive }) => drawn(lexInline(text, links), isLive));

/** Inline text that is shown as it was written. */
export function plain(text, isLive) {
  return isLive ? html`<${Words} text=${text} />` : text;
}

function drawn(tokens, isLive, inLink = false) {
  return tokens.map((token) => (DRAWN[token.type] ?? asWritten)(token, isLive, inLink));
}

const within = (tag) => (token, isLive, inLink) => html`<${tag}>${drawn(token.tokens, isLive, inLink)}<//>`;
const asWritten = (token, isLive, inLink) => plain(inLink ? honest(token.raw) : token.raw, isLive);
const words = (token, isLive, inLink) => plain(inLink ? honest(decoded(token.text)) : decoded(token.text), isLive);

const DRAWN = {
  text: words,
  escape: words,
  strong: within("strong"),
  em: within("em"),
  del: within("del"),
  br: () => html`<br />`,
  codespan: (token) => html`<code dir="ltr">${token.text}</code>`,
  // Markup is text here; only breaks are what they are in tables, where no other way leads to one.
  html: (token, isLive, inLink) => (/^<br\s*\/?>$/i.test(token.raw) ? html`<br />` : asWritten(token, isLive, inLink)),
  checkbox: () => null, // the item has it
  link: (token, isLive) => html`<${Link} token=${token} />`,
  image: (token, isLive, inLink) => (inLink ? honest(decoded(token.text)) : html`<${Picture} token=${token} />`),
};

function Link({ token }) {
  const text = textOf(token.tokens);
  const leads = linkOf(token.href, text, current.value);
  const label = drawn(token.tokens, false, true);
  const pictures = picturesIn(token.tokens).map((picture, index) => html`<${Picture} key=${index} token=${picture} />`);
  if (!leads) return html`<span class="no-link">${label} <span class="address" dir="ltr">(${shortened(token.href)})</span></span>${pictures}`;
  const title = token.title ? honest(decoded(token.title)) : undefined;
  return html`<a href=${leads.href} target="_blank" rel="noopener noreferrer nofollow" dir="auto" title=${title}>${label}</a>${leads.host &&
    html` <span class="address" dir="ltr">(${leads.host})</span>`}${pictures}`;
}

function Picture({ token }) {
  const alt = honest(decoded(token.text));
  const picture = pictureOf(token.href, current.value);
  if (picture?.kind === "here") return html`<img src=${picture.href} alt=${alt} title=${token.title ? decoded(token.title) : undefined} />`;
  if (picture?.kind === "file") return html`<a href=${picture.href} target="_blank" rel="noopener noreferrer nofollow">${alt || picture.href}</a>`;
  if (!picture) return html`<span class="no-link">${alt} <span class="address" dir="ltr">(${shortened(token.href)})</span></span>`;
  // Asking for it tells its host whatever stands in the address: that is for a person to do.
  const show = () => window.open(picture.href, "_blank", "noopener,noreferrer");
  return html`<button type="button" class="picture" title=${picture.href} onClick=${show}>
    <${PictureIcon} />${alt && html`<span dir="auto">${alt}</span>`}<span>${t("show-picture", { host: picture.host })}</span><${OutsideIcon} />
  </button>`;
}

function textOf(tokens) {
  return tokens.map((token) => (token.tokens ? textOf(token.tokens) : decoded(token.text ?? token.raw))).join("");
}

function picturesIn(tokens) {
  return tokens.flatMap((token) => [...(token.type === "image" ? [token] : []), ...picturesIn(token.tokens ?? [])]);
}

function shortened(address) {
  const text = honest(address);
  return text.length > LONGEST_ADDRESS ? `${text.slice(0, LONGEST_ADDRESS)}…` : text;
}
