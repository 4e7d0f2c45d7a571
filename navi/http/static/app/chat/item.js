// What stands for an item of the conversation (folds/conversation.js), by its kind.

import { html } from "../html.js";
import { lazy } from "../lazy.js";
import { Answer } from "./answer.js";
import { ToolCard } from "./tool_card.js";
import { UserMessage } from "./user_message.js";

const Note = lazy(() => import("./note.js").then((module) => module.Note), { isQuiet: true });
const PlanCard = lazy(() => import("./plan_card.js").then((module) => module.PlanCard), { isQuiet: true });
const SubagentCard = lazy(() => import("./subagent_card.js").then((module) => module.SubagentCard), { isQuiet: true });
const TakenIn = lazy(() => import("./taken_in.js").then((module) => module.TakenIn), { isQuiet: true });
const SummaryCard = lazy(() => import("./summary_card.js").then((module) => module.SummaryCard), { isQuiet: true });

// Each is drawn again only when what it is given has changed: a turn changes with every event in it, so
// that no view is given more of it than it shows.
const VIEWS = {
  user: (item, { session }) => html`<${UserMessage} item=${item} session=${session} />`,
  answer: (item, { session, turn, isAsked }) =>
    html`<${Answer} item=${item} session=${session} isNamed=${isNamed(turn, item)} isInner=${!isAsked} />`,
  tool: (item, { session, isAsked }) => html`<${ToolCard} item=${item} session=${session} isAsked=${isAsked} />`,
  subagent: (item, { session, turn, isAsked }) =>
    html`<${SubagentCard} item=${item} session=${session} isRunning=${turn.status === "running"} isAsked=${isAsked} />`,
  plan: (item, { turn }) => html`<${PlanCard} item=${item} isRunning=${turn.status === "running"} />`,
  summary: (item, { session }) => html`<${SummaryCard} item=${item} session=${session} />`,
  taken_in: (item) => html`<${TakenIn} item=${item} />`,
  note: (item, { session }) => html`<${Note} item=${item} session=${session} />`,
};

/** An item; `isAsked` is whether its tools ask here for the decision of a person. */
export function Item({ item, turn, session, isAsked = true }) {
  return VIEWS[item.kind](item, { turn, session, isAsked });
}

/** Whether an answer stands under its name: the first of a turn, and where another profile goes on. */
function isNamed(turn, item) {
  let before = null;
  for (const other of turn.items) {
    if (other === item) break;
    if (other.kind === "answer" && other.text) before = other;
    if (other.kind === "user") before = null;
  }
  return before?.profileId !== item.profileId;
}
