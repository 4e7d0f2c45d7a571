// A call of a tool: one line from waiting to done, that opens.

import { html, memo, useRef } from "../html.js";
import { lazy } from "../lazy.js";
import { t } from "../strings.js";
import { aboutTool } from "./about_tool.js";
import { Card } from "./card.js";
import { Elapsed } from "./elapsed.js";
import { Pictures } from "./pictures.js";
import { StateShape, StateWord } from "./state_words.js";

const Approval = lazy(() => import("./approval.js").then((module) => module.Approval), { isQuiet: true });
const OpenedTool = lazy(() => import("./opened_tool.js").then((module) => module.OpenedTool), { isQuiet: true });

export const ToolCard = memo(({ item, session, isAsked = true }) => {
  const head = useRef();
  const about = aboutTool(item.arguments);
  return html`
    <${Card}
      name=${t("tool-card", { name: item.name })}
      kind="tool"
      state=${item.state}
      headRef=${head}
      line=${html`
        <${StateShape} state=${item.state} /> <b>${item.name}</b> <span class="about" dir="auto">${about}</span>
        <${StateWord} state=${item.state} /> <${TimeOf} item=${item} />
      `}
      beside=${html`
        ${isAsked && item.approval && html`<${Approval} key=${item.callId} item=${item} session=${session} after=${head} />`}
        ${item.images?.length > 0 && html`<${Pictures} session=${session} pictures=${item.images} />`}
      `}
    >
      ${() => html`<${OpenedTool} item=${item} session=${session} />`}
    <//>
  `;
});

/** How long a call ran, or runs. */
export function TimeOf({ item }) {
  if (item.durationMs !== undefined) return html`<${Elapsed} milliseconds=${item.durationMs} />`;
  return item.state === "running" && html`<${Elapsed} from=${item.from} />`;
}
