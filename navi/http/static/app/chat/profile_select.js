// Which profile goes on, or begins.

import { html } from "../html.js";
import { profiles } from "../session/profiles.js";
import { t } from "../strings.js";

const FIRST = "assistant"; // what navi takes where none is named

export function ProfileSelect({ chosen, onChoose }) {
  const known = profiles.value;
  const value = chosen ?? (known.has(FIRST) ? FIRST : "");
  if (!known.size) return null;
  const choose = async ({ target }) => {
    if (!(await onChoose(target.value))) target.value = value;
  };
  return html`
    <select aria-label=${t("profile")} title=${known.get(value)?.description} value=${value} onChange=${choose}>
      ${!known.has(value) && html`<option value=${value} disabled selected>${value}</option>`}
      ${[...known.values()].map(
        (profile) => html`<option key=${profile.id} value=${profile.id} disabled=${profile.max_iterations === null} selected=${profile.id === value}>${profile.name || profile.id}</option>`,
      )}
    </select>
  `;
}
