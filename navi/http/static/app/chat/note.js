// A line about something that happened in a session.

import { html } from "../html.js";
import { profileName } from "../session/profiles.js";
import { t } from "../strings.js";

const WORDS = {
  profile: (item) => t("note-profile", { name: profileName(item.to) }),
  memory: (item) => t("note-memory", { text: item.text }),
};

export function Note({ item }) {
  return html`<p class="note fine" dir="auto">${WORDS[item.note]?.(item) ?? t(`note-${item.note}`)}</p>`;
}
