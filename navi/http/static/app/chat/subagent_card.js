// A subagent: a card that opens to its own conversation.

import { awaitingApproval } from "../folds/conversation.js";
import { html, memo, useRef } from "../html.js";
import { BotIcon } from "../icons.js";
import { profileName } from "../session/profiles.js";
import { t } from "../strings.js";
import { aboutTool } from "./about_tool.js";
import { Approval } from "./approval.js";
import { Card } from "./card.js";
import { Item } from "./item.js";
import { Markdown } from "./markdown.js";
import { StateShape, StateWord } from "./state_words.js";
import { TimeOf } from "./tool_card.js";

export const SubagentCard = memo(({ item, session, isRunning, isAsked }) => {
  const head = useRef();
  const own = { items: item.items, status: isRunning ? "running" : "completed" };
  const name = profileName(item.profileId);
  const asked = isAsked ? awaitingApproval(item.items) : [];
  return html`
    <${Card}
      name=${t("subagent-card", { name })}
      kind="subagent"
      state=${item.state}
      headRef=${head}
      line=${html`
        <${StateShape} state=${item.state} /> <${BotIcon} /> <b>${name}</b> <span class="about" dir="auto">${aboutTool({ task: item.task })}</span>
        <${StateWord} state=${item.state} /> <${TimeOf} item=${item} />
      `}
      beside=${asked.map((tool) => html`<${Approval} key=${tool.callId} item=${tool} session=${session} after=${head} />`)}
    >
      ${() => html`
        <section>
          <h3>${t("task")}</h3>
          <p class="said" dir="auto">${item.task}</p>
        </section>
        <div class="inner">
          ${item.items.map((inner) => html`<${Item} key=${inner.key} item=${inner} turn=${own} session=${session} isAsked=${false} />`)}
        </div>
        ${item.result !== undefined &&
        item.result !== item.items.findLast((inner) => inner.kind === "answer")?.text &&
        html`<section>
          <h3>${t(item.completedNormally ? "result" : "result-early")}</h3>
          <${Markdown} text=${item.result} isOpen=${false} />
        </section>`}
      `}
    <//>
  `;
});
