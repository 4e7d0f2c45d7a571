// A message of a person: its receipt, its files, and saying it otherwise.

import { html, memo, useRef, useState } from "../html.js";
import { ForkIcon, PencilIcon, RetryIcon } from "../icons.js";
import { lazy } from "../lazy.js";
import { isForeign } from "../session/me.js";
import { t } from "../strings.js";
import { CopyButton } from "./copy_button.js";
import { Files } from "./pictures.js";
import { focus } from "./reading.js";

const Change = lazy(() => import("./change.js").then((module) => module.Change), { isQuiet: true });

const LONG = 2500; // characters from which a message is clipped until somebody wants all of it
const LONG_LINES = 25;
const RECEIPTS = { delivered: "delivered", withdrawn: "withdrawn", sending: "sending" };

export const UserMessage = memo(({ item, session }) => {
  const [isChanging, setChanging] = useState(false);
  const [isWhole, setWhole] = useState(false);
  const isClipped = !isWhole && isLong(item.content);
  const pencil = useRef();
  const receipt = item.state === "waiting" ? (item.mode === "steer" ? "with-the-next-call" : "queued") : RECEIPTS[item.state];
  const end = () => {
    setChanging(false);
    pencil.current?.focus();
  };
  const showWhole = ({ target }) => {
    setWhole(true);
    focus(target.closest("article")); // the button goes
  };
  const can = (item.state === "delivered" || item.state === "withdrawn") && !isForeign(session);
  const words = html`<div class=${isClipped ? "said clipped" : "said"} dir="auto">${item.content}</div>`;
  return html`
    <article class="user-message" aria-label=${t("you")} data-state=${item.state}>
      <header>
        <h2>${t("you")}</h2>
        <div class="message-actions">
          <${CopyButton} text=${item.content} />
          ${can &&
          html`
            <button class="plain icon-only" aria-label=${t("rewrite")} title=${t("rewrite")} ref=${pencil} onClick=${() => setChanging(true)}>
              <${PencilIcon} />
            </button>
            <button class="plain icon-only" aria-label=${t("ask-again")} title=${t("ask-again")} onClick=${() => session.sayAgain(item, item.content)}>
              <${RetryIcon} />
            </button>
            <button class="plain icon-only" aria-label=${t("fork-before")} title=${t("fork-before")} onClick=${() => session.fork(item)}>
              <${ForkIcon} />
            </button>
          `}
        </div>
        <span class="receipt">${t(receipt)}</span>
      </header>
      ${isChanging
        ? html`<${Change} content=${item.content} onSay=${(content) => session.sayAgain(item, content)} onEnd=${end}>${words}<//>`
        : words}
      ${!isChanging && isClipped && html`<button onClick=${showWhole}>${t("show-all", { count: item.content.length })}</button>`}
      ${item.files?.length > 0 && html`<${Files} session=${session} names=${item.files} />`}
    </article>
  `;
});

function isLong(text) {
  return text.length > LONG || text.split("\n", LONG_LINES + 1).length > LONG_LINES;
}
