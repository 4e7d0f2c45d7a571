// The dialog "Compare": two moments of a session, or a fork and its origin, side by side.
//
// `compare` of the address is the other moment: "" for the beginning of the last turn (of a fork: its
// origin), "17" for a moment of the session, "SESSION" or "SESSION@17" for one of another.

import { Problem, get, pathOf } from "../api.js";
import { usageSoFar } from "../folds/usage_so_far.js";
import { html, useEffect, useMemo, useState } from "../html.js";
import { go, route } from "../router.js";
import { Modal } from "../shell/dialogs.js";
import { clock, t, tokens } from "../strings.js";
import { compareMessages, compareWords } from "./alignment.js";
import "./look.js";

const USAGE_TYPES = "session_created,model_called,model_replied,model_call_failed";

export function Comparison({ session }) {
  const origin = session.row.value?.forked_from ?? null;
  const a = sideOf(route.value.compare, session, origin);
  const b = { sessionId: session.id, at: session.moment.value };
  const close = () => go({ ...route.value, compare: null }, { replace: true });
  const choose = (side) => go({ ...route.value, compare: nameOf(side, session) }, { replace: true });
  return html`
    <${Modal} className="comparison" label=${t("compare")} onClose=${close}>
      <header>
        <h2>${t("compare")}</h2>
        <button onClick=${({ target }) => target.closest("dialog").close()}>${t("close")}</button>
      </header>
      <div class="sides">
        <${Side} name=${t("compare-before")} side=${a} session=${session} origin=${origin} onChoose=${choose} />
        <${Side}
          name=${t("compare-after")}
          side=${b}
          session=${session}
          onChoose=${({ at }) => session.lookAt(at)}
        />
      </div>
      <${Difference} a=${a} b=${b} head=${session.log.head.value} />
    <//>
  `;
}

function sideOf(name, session, origin) {
  if (!name) {
    if (origin) return { sessionId: origin.session_id, at: null };
    const starts = session.log.facts.filter(({ type }) => type === "turn_started");
    const at = session.moment.value ?? session.log.head.value;
    return { sessionId: session.id, at: (starts.findLast(({ seq }) => seq < at)?.seq ?? 1) - 1 };
  }
  const [, id, seq] = /^(?:([0-9a-f-]{36})(?:@|$))?(\d*)$/.exec(name) ?? [];
  return { sessionId: id ?? session.id, at: seq ? Number(seq) : null };
}

function nameOf({ sessionId, at }, session) {
  if (sessionId === session.id) return String(at ?? session.log.head.value);
  return at === null ? sessionId : `${sessionId}@${at}`;
}

/** One of the two: which session, and at which event. */
function Side({ name, side, session, origin = null, onChoose }) {
  const isOrigin = side.sessionId !== session.id;
  const [typed, setTyped] = useState(null); // what goes on in the session draws nothing over it
  return html`
    <fieldset>
      <legend>${name}</legend>
      ${origin &&
      html`
        <label>
          ${t("session")}
          <select
            value=${isOrigin ? origin.session_id : session.id}
            onChange=${({ target }) => onChoose({ sessionId: target.value, at: null })}
          >
            <option value=${origin.session_id}>${t("compare-origin")}</option>
            <option value=${session.id}>${t("compare-fork")}</option>
          </select>
        </label>
      `}
      <label>
        ${t("event")}
        <input
          type="number"
          min="0"
          max=${isOrigin ? undefined : session.log.head.value}
          placeholder=${t("now")}
          value=${typed ?? side.at ?? ""}
          onInput=${({ target }) => setTyped(target.value)}
          onBlur=${() => setTyped(null)}
          onChange=${({ target }) => {
            setTyped(null);
            onChoose({ ...side, at: target.value === "" ? null : target.valueAsNumber });
          }}
        />
      </label>
    </fieldset>
  `;
}

function Difference({ a, b, head }) {
  const [state, setState] = useState({ before: null, after: null, problem: null });
  // Now is where the session stands when one looks; it does not run away under the reader.
  useEffect(() => {
    const stop = new AbortController();
    Promise.all([read(a, stop.signal), read(b, stop.signal)]).then(
      ([before, after]) => setState({ before, after, problem: null }),
      (error) => {
        if (stop.signal.aborted) return;
        if (!(error instanceof Problem)) throw error;
        setState({ before: null, after: null, problem: error });
      },
    );
    return () => stop.abort();
  }, [a.sessionId, a.at, b.sessionId, b.at]);
  const { before, after, problem } = state;
  const rows = useMemo(() => (after ? compareMessages(before.messages, after.messages) : []), [after]);
  if (problem) return html`<p class="problem" role="alert">${problem.message}</p>`;
  if (!after) return html`<div class="empty">${t("loading")}</div>`;
  return html`
    <${Figures} before=${before} after=${after} />
    <ol class="differences" tabindex="0" aria-label=${t("compare-messages")}>
      ${rows.map((row, index) => html`<${Row} key=${index} row=${row} />`)}
    </ol>
    ${rows.every(({ kind }) => kind === "same") && html`<p class="fine">${t("compare-no-difference")}</p>`}
  `;
}

async function read({ sessionId, at }, signal) {
  const until = at === null ? "" : `?at=${at}`;
  const before = at === null ? "" : `&before=${at + 1}`;
  const [said, context, counted] = await Promise.all([
    get(`${pathOf(sessionId, "messages")}${until}`, { signal }),
    get(`${pathOf(sessionId, "context")}${until}`, { signal }),
    get(`${pathOf(sessionId, "events")}?type=${USAGE_TYPES}${before}`, { signal }),
  ]);
  const usage = counted.events.reduce(usageSoFar.apply, usageSoFar.initial());
  return { seq: at ?? said.seq, messages: said.messages, context, usage };
}

const FIGURES = [
  ["compare-event", ({ seq }) => seq, String],
  ["compare-messages", ({ messages }) => messages.length, String],
  ["compare-context", ({ context }) => context.token_count ?? 0, tokens],
  ["compare-calls", ({ usage }) => usage.calls, String],
  ["compare-read", ({ usage }) => usage.promptTokens, tokens],
  ["compare-written", ({ usage }) => usage.completionTokens, tokens],
];

function Figures({ before, after }) {
  return html`
    <table class="figures">
      <thead>
        <tr>
          <td></td>
          <th scope="col">${t("compare-before")}</th>
          <th scope="col">${t("compare-after")}</th>
          <th scope="col">${t("compare-difference")}</th>
        </tr>
      </thead>
      <tbody>
        ${FIGURES.map(([name, value, words]) => {
          const by = value(after) - value(before);
          return html`
            <tr key=${name}>
              <th scope="row">${t(name)}</th>
              <td>${words(value(before))}</td>
              <td>${words(value(after))}</td>
              <td>${by === 0 ? "–" : `${by > 0 ? "+" : "−"}${words(Math.abs(by))}`}</td>
            </tr>
          `;
        })}
      </tbody>
    </table>
  `;
}

function Row({ row }) {
  const [isOpen, setOpen] = useState(false);
  if (row.kind === "same") {
    return html`
      <li class="same">
        <button class="plain" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
          ${t("compare-same", { count: row.messages.length })}
        </button>
        ${isOpen && row.messages.map((message) => html`<${Said} key=${message.seq} message=${message} />`)}
      </li>
    `;
  }
  if (row.kind === "removed") return html`<li class="removed"><${Said} message=${row.a} mark=${t("compare-only-before")} /></li>`;
  if (row.kind === "added") return html`<li class="added"><${Said} message=${row.b} mark=${t("compare-only-after")} /></li>`;
  return html`
    <li class="changed">
      <${Heading} message=${row.b} mark=${t("compare-changed")} />
      <div class="words" dir="auto">
        ${compareWords(textOf(row.a), textOf(row.b)).map(({ kind, text }) => {
          if (kind === "removed") return html`<del>${text}</del>`;
          return kind === "added" ? html`<ins>${text}</ins>` : text;
        })}
      </div>
    </li>
  `;
}

function Said({ message, mark }) {
  return html`
    <${Heading} message=${message} mark=${mark} />
    <div class="words" dir="auto">${textOf(message)}</div>
  `;
}

function Heading({ message, mark }) {
  const who = message.role === "tool" ? t("tool-card", { name: message.name ?? "" }) : t(`said-by-${message.role}`);
  return html`<p class="fine"><b>${who}</b> ${clock(message.at)} ${mark && html`<span class="mark">${mark}</span>`}</p>`;
}

/** A message's text, with the tools that it calls. */
function textOf(message) {
  const calls = (message.tool_calls ?? []).map(({ name, arguments: given }) => `${name} ${JSON.stringify(given)}`);
  return [message.content, ...calls].filter(Boolean).join("\n");
}
