// A call of a tool: one line from waiting to done, that opens.

import { html, memo, useRef } from "../html.js";
import { lazy } from "../lazy.js";
import { t } from "../strings.js";
import { aboutTool } from "./about_tool.js";
import { Card } from "./card.js";
import { Elapsed } from "./elapsed.js";
import { Output } from "./output.js";
import { Pictures } from "./pictures.js";
import { StateShape, StateWord } from "./state_words.js";

const Approval = lazy(() => import("./approval.js").then((module) => module.Approval), { isQuiet: true });
const Decision = lazy(() => import("./approval.js").then((module) => module.Decision), { isQuiet: true });
const MadeFiles = lazy(() => import("./made_files.js").then((module) => module.MadeFiles), { isQuiet: true });

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
      ${() => html`<${Opened} item=${item} session=${session} />`}
    <//>
  `;
});

/** How long a call ran, or runs. */
export function TimeOf({ item }) {
  if (item.durationMs !== undefined) return html`<${Elapsed} milliseconds=${item.durationMs} />`;
  return item.state === "running" && html`<${Elapsed} from=${item.from} />`;
}

function Opened({ item, session }) {
  const isRunning = item.state === "running";
  return html`
    ${item.approval && html`<${Decision} approval=${item.approval} />`}
    <${Arguments} args=${item.arguments} />
    ${item.output && html`<${Output} name=${t(isRunning ? "output" : "result")} text=${String(item.output)} isLive=${isRunning} />`}
    ${item.isTruncated && html`<p class="fine">${t("result-cut")}</p>`}
    ${mayMakeFiles(item) && html`<${MadeFiles} item=${item} session=${session} />`}
  `;
}

// What navi's own tools do is known; those of others may write whatever they like.
const MAKE_NONE = new Set(["memory", "scratchpad", "skill", "ssh", "switch_profile", "todo", "view_image", "web_fetch", "web_search"]);

function mayMakeFiles({ name, from, until, arguments: args }) {
  if (from === null || until === null || MAKE_NONE.has(name)) return false;
  return name !== "filesystem" || args?.action === "write" || args?.action === "append";
}

/** Arguments as they are: what has several lines as text, all else as JSON. */
function Arguments({ args }) {
  const isPlain = args !== null && typeof args === "object" && !Array.isArray(args);
  const long = isPlain ? Object.entries(args).filter(([, value]) => typeof value === "string" && value.includes("\n")) : [];
  const rest = isPlain ? Object.fromEntries(Object.entries(args).filter(([name]) => !long.some(([other]) => other === name))) : args;
  const hasRest = !isPlain || Object.keys(rest).length > 0 || long.length === 0;
  return html`
    ${hasRest && html`<${Output} name=${t("arguments")} text=${JSON.stringify(rest, null, 2) ?? ""} />`}
    ${long.map(([name, value]) => html`<${Output} key=${name} name=${name} text=${value} />`)}
  `;
}
