// What a model thought: open while it thinks, folded once the answer begins.

import { html, memo, useLayoutEffect, useRef } from "../html.js";
import { ThinkingIcon } from "../icons.js";
import { duration, t } from "../strings.js";
import { Card } from "./card.js";
import { Elapsed } from "./elapsed.js";

export const Thinking = memo(({ text, from, until }) => {
  const isThinking = until === null;
  const line = isThinking
    ? html`<${ThinkingIcon} /> <span class="about">${t("thinking-now")}</span> <${Elapsed} from=${from} />`
    : html`<${ThinkingIcon} /> <span class="about">${t("thought-for", { time: duration(Date.parse(until) - Date.parse(from)) })}</span>`;
  return html`
    <${Card} name=${t("thinking")} kind="thinking" open=${isThinking} line=${line}>
      <${Text} text=${text} isLive=${isThinking} />
    <//>
  `;
});

function Text({ text, isLive }) {
  const place = useRef();
  useLayoutEffect(() => {
    if (isLive) place.current.scrollTop = place.current.scrollHeight;
  }, [text, isLive]);
  return html`<div class="said thoughts" dir="auto" tabindex="0" ref=${place}>${text}</div>`;
}
