// A tool that waits for a person to decide.

import { html } from "../html.js";
import { t } from "../strings.js";

export function Approval({ item, session }) {
  const decide = (decision) => session.decide(item.callId, decision);
  return html`
    <div role="group" aria-label=${t("approval")} class="approval">
      <p>${item.approval.reason}</p>
      <pre tabindex="0">${item.approval.preview}</pre>
      <div class="actions">
        <button class="primary" onClick=${() => decide({ decision: "allow" })}>${t("allow")}</button>
        <button onClick=${() => decide({ decision: "allow", scope: "session" })}>${t("allow-session")}</button>
        <button onClick=${() => decide({ decision: "deny" })}>${t("deny")}</button>
      </div>
    </div>
  `;
}
