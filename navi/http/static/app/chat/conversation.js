// The conversation: turns, newest at the bottom, and the messages that wait below them. Only a part of a
// long one is drawn; what came before is loaded when somebody goes there.

import { html, memo, useEffect, useLayoutEffect, useRef, useState } from "../html.js";
import { DownIcon } from "../icons.js";
import { lazy } from "../lazy.js";
import { led, route } from "../router.js";
import { t } from "../strings.js";
import { Item } from "./item.js";
import { loadMarkdown } from "./markdown.js";
import { Reading, onKey } from "./reading.js";
import { indicesOf, partsOf } from "./shown_range.js";
import { UserMessage } from "./user_message.js";

const TurnEnd = lazy(() => import("./turn_end.js").then((module) => module.TurnEnd), { isQuiet: true });

export function Conversation({ session, state }) {
  const box = useRef();
  const content = useRef();
  const [reading] = useState(() => new Reading(session));
  const moment = session.moment.value;
  const { seq } = route.value;
  const parts = partsOf(state);
  const range = reading.range.value;
  const [from, until] = indicesOf(range, parts);
  const shown = turnsOf(parts, from, until);
  const found = reading.found.value;
  const leftAt = reading.leftAt.value;

  useEffect(() => void loadMarkdown(), []);
  useLayoutEffect(() => reading.attach(box.current, content.current), []);
  useEffect(() => {
    if (moment !== null) reading.toEnd();
  }, [moment]);
  useLayoutEffect(() => reading.drawn());
  useEffect(() => {
    if (seq !== null) reading.goTo(seq);
  }, [seq, led.value]);
  useEffect(() => {
    // What `time to first message` is measured by.
    if (parts.length) performance.mark("conversation-shown");
  }, [parts.length > 0]);

  /** What was clicked may have gone with what it did. */
  const keepFocus = () => document.activeElement === document.body && box.current?.focus();

  const last = state.turns.findLast((turn) => turn.status !== "between");
  return html`
    <div class="conversation-frame">
      <div
        class="conversation"
        role="log"
        aria-live="off"
        aria-label=${t("conversation")}
        tabindex="0"
        ref=${box}
        onScroll=${() => reading.scrolled()}
        onKeyDown=${(event) => onKey(event, reading)}
      >
        <div class="turns" ref=${content}>
          ${(from > 0 || session.log.from > 0) &&
          html`<button class="plain earlier" onClick=${() => reading.showEarlier().then(keepFocus)}>${t("load-earlier")}</button>`}
          ${shown.map(
            ({ turn, begin, end }) => html`<${Turn}
              key=${turn.key}
              turn=${turn}
              begin=${begin}
              end=${end}
              found=${found}
              isLast=${turn === last}
              session=${session}
            />`,
          )}
          ${range.last === null && html`<${Waiting} state=${state} session=${session} />`}
        </div>
      </div>
      ${leftAt &&
      html`<button class="to-end" onClick=${() => reading.toEnd().then(keepFocus)}>
        <${DownIcon} />${isSame(leftAt, parts.at(-1)) ? t("to-the-end") : t("new-below")}
      </button>`}
    </div>
  `;
}

const Turn = memo(({ turn, begin, end, found, isLast, session }) => html`
  <div class="turn" data-status=${turn.status}>
    ${turn.items.slice(begin, end).map(
      (item) => html`<div key=${item.key} class="item" data-key=${item.key} data-found=${item.key === found || undefined}>
        <${Item} item=${item} turn=${turn} session=${session} />
      </div>`,
    )}
    ${end >= turn.items.length && isCutShort(turn) && html`<${TurnEnd} turn=${turn} session=${session} isLast=${isLast} />`}
  </div>
`, (before, after) =>
  before.turn === after.turn &&
  before.begin === after.begin &&
  before.end === after.end &&
  before.isLast === after.isLast &&
  before.session === after.session &&
  // Only the turns that have it are drawn again.
  (before.found === after.found || ![before.found, after.found].some((key) => after.turn.items.some((item) => item.key === key))));

/** Whether there is a line about how a turn ended. */
const isCutShort = (turn) => ["failed", "stopped"].includes(turn.status) || turn.limitReached || turn.isTruncated;

/** What was said and stands in no turn yet. */
function Waiting({ state, session }) {
  const messages = session.outbox.messages.value;
  const waiting = state.waiting.map((item) => html`<${UserMessage} key=${item.key} item=${item} session=${session} />`);
  if (!messages.length) return waiting;
  const here = new Set([...state.turns.flatMap((turn) => turn.items), ...state.waiting].map((item) => item.messageId));
  const sending = messages.filter(({ message_id: id }) => !here.has(id));
  return [
    ...waiting,
    ...sending.map((message) => html`<${UserMessage} key=${message.message_id} item=${{ ...message, state: "sending" }} session=${session} />`),
  ];
}

/** Whether two parts say the same; what was loaded again is other objects. */
function isSame(before, after) {
  return before.key === after?.key && before.item?.text === after?.item?.text && before.item?.state === after?.item?.state;
}

/** The turns of some parts: `{turn, begin, end}`, the items of it from and until. */
function turnsOf(parts, from, until) {
  const turns = [];
  for (let index = from; index < until; index++) {
    const { turn, item } = parts[index];
    const last = turns.at(-1);
    if (last?.turn === turn) last.end += 1;
    else {
      const begin = index === from && item ? turn.items.indexOf(item) : 0;
      turns.push({ turn, begin, end: begin + 1 });
    }
  }
  return turns;
}
