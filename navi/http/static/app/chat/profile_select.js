// Which profile goes on, or begins.

import { html } from "../html.js";
import { profiles } from "../session/profiles.js";
import { t } from "../strings.js";

const FIRST = "assistant"; // what navi takes where none is named

export function ProfileSelect({ chosen, onChoose }) {
  const known = profiles.value;
  const value = known.has(chosen) ? chosen : known.has(FIRST) ? FIRST : "";
  if (!known.size) return null;
  return html`
    <select aria-label=${t("profile")} title=${known.get(value)?.description} value=${value} onChange=${({ target }) => onChoose(target.value)}>
      ${[...known.values()].map(
        (profile) => html`<option key=${profile.id} value=${profile.id} disabled=${profile.max_iterations === null} selected=${profile.id === value}>${profile.name || profile.id}</option>`,
      )}
    </select>
  `;
}
