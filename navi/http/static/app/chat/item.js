// What stands for an item of the conversation (folds/conversation.js), by its kind.

import { html, memo } from "../html.js";
import { Answer } from "./answer.js";
import { Note } from "./note.js";
import { PlanCard } from "./plan_card.js";
import { SubagentCard } from "./subagent_card.js";
import { SummaryCard } from "./summary_card.js";
import { TakenIn } from "./taken_in.js";
import { ToolCard } from "./tool_card.js";
import { UserMessage } from "./user_message.js";

const VIEWS = {
  user: UserMessage,
  answer: Answer,
  tool: ToolCard,
  subagent: SubagentCard,
  plan: PlanCard,
  summary: SummaryCard,
  taken_in: TakenIn,
  note: Note,
};

/** An item; drawn again only when it, or its turn where it depends on that, has changed. */
export const Item = memo(({ item, turn, session }) => html`<${VIEWS[item.kind]} item=${item} turn=${turn} session=${session} />`);
