// What a tool's card shows when it is open: its arguments, what came of it, and the files that it made.

import { html } from "../html.js";
import { lazy } from "../lazy.js";
import { t } from "../strings.js";
import { Output } from "./output.js";

const Decision = lazy(() => import("./approval.js").then((module) => module.Decision), { isQuiet: true });
const MadeFiles = lazy(() => import("./made_files.js").then((module) => module.MadeFiles), { isQuiet: true });

export function OpenedTool({ item, session }) {
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
