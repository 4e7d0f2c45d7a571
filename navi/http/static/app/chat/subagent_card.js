// A subagent: a card that opens to its own conversation.

import { html, useState } from "../html.js";
import { profileName } from "../session/profiles.js";
import { t } from "../strings.js";
import { Item } from "./item.js";

export function SubagentCard({ item, turn, session }) {
  const [isOpen, setOpen] = useState(false);
  return html`
    <div role="group" aria-label=${t("subagent-card", { name: profileName(item.profileId) })} class="card subagent" data-state=${item.state}>
      <button class="plain card-head" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
        <span class="state">${t(`state-${item.state}`)}</span> <b>${profileName(item.profileId)}</b> ${item.task}
      </button>
      ${isOpen && html`<div class="card-body">
        ${item.items.map((inner) => html`<${Item} key=${inner.key} item=${inner} turn=${turn} session=${session} />`)}
      </div>`}
    </div>
  `;
}
