// The twin of the picture: a row a model call or tool, with the same words.

import { html, memo } from "../html.js";
import { duration, t } from "../strings.js";
import { partWords, spanName, stateWords, tokenWords } from "./span_words.js";

export function SpanTable({ session, turn, spans, names, chosen, onPoint, onRequest }) {
  const rows = spans.filter(({ kind }) => kind === "call" || kind === "tool").toSorted((a, b) => a.from - b.from);
  const approvals = new Map(spans.filter(({ kind }) => kind === "approval").map((span) => [span.callId, span]));
  return html`
    <div class="span-table">
      <table>
        <caption class="hidden">${t("timeline-table")}</caption>
        <thead>
          <tr>
            <th scope="col">${t("span-name")}</th>
            <th scope="col">${t("actor")}</th>
            <th scope="col" class="number">${t("event")}</th>
            <th scope="col" class="number">${t("start")}</th>
            <th scope="col" class="number">${t("duration")}</th>
            <th scope="col"><span class="hidden">${t("parts")}</span></th>
            <th scope="col" class="number">${t("usage-tokens")}</th>
            <th scope="col">${t("state")}</th>
            <th scope="col"><span class="hidden">${t("request")}</span></th>
          </tr>
        </thead>
        <tbody>
          ${rows.map(
            (span) => html`
              <${Row}
                key=${span.key}
                session=${session}
                span=${span}
                from=${turn.from}
                approval=${approvals.get(span.callId)}
                actor=${names.get(span.actor)}
                isChosen=${span.key === chosen}
                onPoint=${onPoint}
                onRequest=${onRequest}
              />
            `,
          )}
        </tbody>
      </table>
    </div>
  `;
}

const Row = memo(({ session, span, from, approval, actor, isChosen, onPoint, onRequest }) => html`
  <tr
    data-row=${span.key}
    data-kind=${span.kind}
    data-state=${span.state}
    class=${isChosen ? "chosen" : ""}
    onPointerEnter=${() => onPoint(span.key)}
    onFocusIn=${() => onPoint(span.key)}
  >
    <th scope="row">${spanName(span)}</th>
    <td>${actor}</td>
    <td class="number">
      <button class="plain" aria-label=${t("look-at", { seq: span.seq })} onClick=${() => session.lookAt(span.seq, { replace: false })}>
        ${span.seq}
      </button>
    </td>
    <td class="number">${duration(span.from - from)}</td>
    <td class="number">${duration(span.until - span.from)}</td>
    <td class="fine">${partWords(span, approval)}</td>
    <td class="number">${span.kind === "call" && tokenWords(span)}</td>
    <td class="outcome">${stateWords(span)}</td>
    <td>${span.kind === "call" && html`<button onClick=${() => onRequest(span)}>${t("request")}</button>`}</td>
  </tr>
`);
