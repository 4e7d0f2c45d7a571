// The exact request of a model call, made again from the log, and whether it is what was sent.

import { Problem, get, pathOf } from "../api.js";
import { copy } from "../clipboard.js";
import { html, useEffect, useState } from "../html.js";
import { Modal } from "../shell/dialogs.js";
import { t } from "../strings.js";

export function RequestDialog({ session, callId, name, onClose }) {
  const [made, setMade] = useState(null);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    get(pathOf(session.id, "calls", callId, "request")).then(setMade, (error) => {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    });
  }, []);
  const messages = Array.isArray(made?.request?.messages) ? made.request.messages : [];
  return html`
    <${Modal} className="request" label=${t("request")} onClose=${onClose}>
      <header>
        <h2>${t("request-of", { name })}</h2>
        <div class="actions">
          ${made && html`<button onClick=${() => copy(made.body)}>${t("copy")}</button>`}
          <button onClick=${({ target }) => target.closest("dialog").close()}>${t("close")}</button>
        </div>
      </header>
      ${problem && html`<p class="problem" role="alert">${problem.message}</p>`}
      ${!made && !problem && html`<p class="fine">${t("loading")}</p>`}
      ${made &&
      html`
        <p class=${made.matches ? "matches" : "problem"}>
          <span aria-hidden="true">${made.matches ? "✓" : "✕"}</span> ${t(made.matches ? "request-matches" : "request-differs")}
        </p>
        <dl>
          <dt>SHA-256</dt>
          <dd><code>${made.sha256}</code></dd>
          <dt>${t("model-server")}</dt>
          <dd><code>${made.backend}</code></dd>
        </dl>
        <div class="request-body" tabindex="0">
          ${messages.map(
            (message, index) => html`
              <section key=${index}>
                <h3>${index + 1} · ${String(message.role)}</h3>
                <pre dir="auto">${textOf(message)}</pre>
              </section>
            `,
          )}
          <details open=${messages.length === 0}>
            <summary>JSON</summary>
            <pre>${JSON.stringify(made.request, null, 2)}</pre>
          </details>
        </div>
      `}
    <//>
  `;
}

/** What a message of a request says, whichever protocol it is of. */
function textOf(message) {
  const { role, content, ...others } = message;
  const more = Object.fromEntries(Object.entries(others).filter(([, value]) => value && (value.length ?? 1) > 0));
  const said = typeof content === "string" ? content : content == null ? "" : JSON.stringify(content, null, 2);
  const rest = Object.keys(more).length ? JSON.stringify(more, null, 2) : "";
  return [said, rest].filter(Boolean).join("\n");
}
