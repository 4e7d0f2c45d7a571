// Text of a machine: as it is, wrapped, and not all of it at once.

import { html, useLayoutEffect, useRef, useState } from "../html.js";
import { t } from "../strings.js";
import { CopyButton } from "./copy_button.js";

const SHOWN = 4000; // characters; the rest on demand
const SHOWN_LINES = 60;

/** A text under its name; the end of it while it grows. */
export function Output({ name, text, isLive = false }) {
  const [isWhole, setWhole] = useState(false);
  const place = useRef();
  const shown = isWhole ? text : isLive ? text.slice(-SHOWN) : beginningOf(text);
  const showWhole = () => {
    setWhole(true);
    place.current.focus(); // the button goes
  };
  useLayoutEffect(() => {
    if (isLive) place.current.scrollTop = place.current.scrollHeight;
  }, [shown, isLive]);
  return html`
    <section class="output">
      <header><h3>${name}</h3><${CopyButton} text=${text} /></header>
      <pre tabindex="0" dir="auto" class=${isWhole ? "whole" : ""} ref=${place}>${shown}</pre>
      ${shown.length < text.length &&
      !isLive &&
      html`<button onClick=${showWhole}>${t("show-all", { count: text.length })}</button>`}
    </section>
  `;
}

function beginningOf(text) {
  let end = Math.min(text.length, SHOWN);
  let at = -1;
  for (let line = 0; line < SHOWN_LINES; line++) {
    at = text.indexOf("\n", at + 1);
    if (at < 0 || at >= end) return text.slice(0, end);
  }
  return text.slice(0, at);
}
