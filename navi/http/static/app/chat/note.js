// A line about something that happened in a session.

import { html, memo } from "../html.js";
import { addressOf, follow } from "../router.js";
import { profileName } from "../session/profiles.js";
import { t, tokens } from "../strings.js";

const WORDS = {
  profile: (item) => t("note-profile", { name: profileName(item.to) }) + (item.reason ? ` · ${item.reason}` : ""),
  memory: (item) => t("note-memory", { text: item.text }),
  budget: (item) => t(`note-budget-${item.scope}`, { spent: tokens(item.spent ?? 0), limit: tokens(item.limit ?? 0) }),
  "not-compressed": (item) => t("note-not-compressed", { why: item.error }),
};

export const Note = memo(({ item }) => {
  if (item.note === "recalled") {
    return html`<details class="note fine"><summary>${t("note-recalled")}</summary><p class="said" dir="auto">${item.text}</p></details>`;
  }
  if (item.note === "forked") return html`<${Forked} origin=${item.origin} />`;
  return html`<p class="note fine" dir="auto">${WORDS[item.note]?.(item) ?? t(`note-${item.note}`)}</p>`;
});

function Forked({ origin }) {
  const place = { sessionId: origin.session_id, at: origin.seq };
  return html`<p class="note fine">
    ${t("note-forked")} <a href=${addressOf(place)} onClick=${(event) => follow(event, place)}>${t("note-forked-from")}</a>
  </p>`;
}
