// The conversation: turns, newest at the bottom, and the messages that wait below them.

import { html, memo, useLayoutEffect, useRef } from "../html.js";
import { t } from "../strings.js";
import { Item } from "./item.js";
import { TurnEnd } from "./turn_end.js";
import { UserMessage } from "./user_message.js";

const NEAR_THE_END = 80; // pixels within which a reader counts as following

export function Conversation({ session, state }) {
  const log = useRef();
  const follows = useRef(true);
  useLayoutEffect(() => {
    if (follows.current) log.current.scrollTop = log.current.scrollHeight;
  });
  const last = state.turns.findLast((turn) => turn.status !== "between");
  const here = new Set(state.turns.flatMap((turn) => turn.items.map((item) => item.messageId)));
  const waiting = new Set(state.waiting.map((item) => item.messageId));
  const sending = session.outbox.messages.value.filter(({ message_id: id }) => !here.has(id) && !waiting.has(id));
  const onScroll = ({ target }) => {
    follows.current = target.scrollHeight - target.scrollTop - target.clientHeight < NEAR_THE_END;
  };
  return html`
    <div class="conversation" role="log" aria-live="off" aria-label=${t("conversation")} tabindex="0" ref=${log} onScroll=${onScroll}>
      ${state.turns.map((turn) => html`<${Turn} key=${turn.key} turn=${turn} session=${session} isLast=${turn === last} />`)}
      ${state.waiting.map((item) => html`<${UserMessage} key=${item.key} item=${item} session=${session} />`)}
      ${sending.map(
        (message) => html`<${UserMessage} key=${message.message_id} item=${{ ...message, state: "sending" }} session=${session} />`,
      )}
    </div>
  `;
}

const Turn = memo(({ turn, session, isLast }) => html`
  <div class="turn" data-status=${turn.status}>
    ${turn.items.map((item) => html`<${Item} key=${item.key} item=${item} turn=${turn} session=${session} />`)}
    <${TurnEnd} turn=${turn} session=${session} isLast=${isLast} />
  </div>
`);
