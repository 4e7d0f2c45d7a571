// Where the context was compressed: the summary, which opens to what it stands for, and can be undone.

import { html, memo, useEffect, useState } from "../html.js";
import { FoldIcon } from "../icons.js";
import { isForeign } from "../session/me.js";
import { profileName } from "../session/profiles.js";
import { t, tokens } from "../strings.js";
import { conversation } from "../folds/conversation.js";
import { Card } from "./card.js";
import { Markdown } from "./markdown.js";

const SHOWN = 30; // messages of what was summarised, until all are asked for

export const SummaryCard = memo(({ item, session }) => {
  // Read as a signal: whether it is the last in force changes with what comes after it.
  const isLast = lastInForce(session.conversation.value)?.seq === item.seq;
  const words = item.isUndone
    ? t("summary-undone")
    : t("summary-line", { before: tokens(item.tokensBefore ?? 0), after: tokens(item.tokensAfter ?? 0) });
  return html`
    <${Card}
      name=${t("summary")}
      kind="summary"
      state=${item.isUndone ? "undone" : "in-force"}
      line=${html`<${FoldIcon} /> <b>${t("summary")}</b> <span class="about">${words}</span>`}
      beside=${isLast && session.moment.value === null && !isForeign(session) && html`<button class="undo" onClick=${() => session.undoCompression(item.seq)}>${t("undo")}</button>`}
    >
      ${() => html`
        <${Markdown} text=${item.summary} isOpen=${false} />
        <${StandsFor} item=${item} session=${session} />
      `}
    <//>
  `;
});

/** The messages that a summary took the place of. */
function StandsFor({ item, session }) {
  const [state, setState] = useState(() => (session.log.isWhole ? session.foldAt(conversation, item.seq) : null));
  const [isWhole, setWhole] = useState(false);
  useEffect(() => {
    if (state) return;
    session.log.reach(0).then(
      () => setState(session.foldAt(conversation, item.seq)),
      () => setState(session.foldAt(conversation, item.seq)), // what is here is shown
    );
  }, []);
  if (!state) return html`<p class="fine">${t("loading")}</p>`;
  const lines = state.turns.flatMap((turn) => turn.items.flatMap(lineOf)).filter((line) => line.seq < item.keptFromSeq);
  const shown = isWhole ? lines : lines.slice(-SHOWN);
  return html`
    <section class="stands-for">
      <h3>${t("stands-for", { count: lines.length })}</h3>
      ${shown.length < lines.length && html`<button onClick=${() => setWhole(true)}>${t("stands-for-earlier", { count: lines.length - shown.length })}</button>`}
      <dl tabindex="0">
        ${shown.map((line) => html`<div key=${line.seq}><dt>${line.who}</dt><dd class="said" dir="auto">${line.text}</dd></div>`)}
      </dl>
    </section>
  `;
}

// Where an item stands in the context is where it came into it.
const LINES = {
  user: (item) => ({ seq: item.deliveredSeq ?? Infinity, who: t("you"), text: item.content }),
  answer: (item) => ({ seq: item.repliedSeq ?? Infinity, who: profileName(item.profileId), text: item.text }),
  tool: (item) => ({ seq: item.resultSeq ?? Infinity, who: item.name, text: String(item.output ?? "") }),
  subagent: (item) => ({ seq: item.resultSeq ?? Infinity, who: profileName(item.profileId), text: String(item.output ?? "") }),
  plan: (item) => ({ seq: item.seq, who: t("plan"), text: item.text }),
};

function lineOf(item) {
  const line = LINES[item.kind]?.(item);
  return line?.text ? [line] : [];
}

function lastInForce(state) {
  for (const turn of state.turns.toReversed()) {
    const found = turn.items.findLast((item) => item.kind === "summary" && !item.isUndone);
    if (found) return found;
  }
  return null;
}
