// The view "Timeline" of a session: a turn as a picture, and as a table that says the same.

import { Problem, get, pathOf } from "../api.js";
import { spansOf, turnSpans, withQueues } from "../folds/turn_spans.js";
import { html, useCallback, useEffect, useMemo, useRef, useState } from "../html.js";
import { doing } from "../session/open_session.js";
import { clock, duration, t } from "../strings.js";
import { stylesheet } from "../stylesheet.js";
import { CLOSEST, Picture } from "./picture.js";
import { RequestDialog } from "./request_dialog.js";
import { SpanTable } from "./span_table.js";
import { actorNames, sentence, spanName } from "./span_words.js";

const DRAWN_EVERY = 250; // ms, while a turn runs
const TITLE = 60; // characters of a turn's message

await stylesheet("../../style/timeline.css", import.meta.url);

export function TimelineView({ session }) {
  useEffect(() => void doing(() => session.log.reach(0)), []);
  const { turns, at } = session.fold(turnSpans);
  const [wanted, setWanted] = useState(null);
  const turn = turns.find(({ turnId }) => turnId === wanted) ?? turns.at(-1);
  if (!turn) return html`<div class="empty">${t("timeline-empty")}</div>`;
  return html`
    <div class="timeline">
      <label class="timeline-turn">
        ${t("turn")}
        <select value=${turn.turnId} onChange=${({ target }) => setWanted(target.value)}>
          ${turns.toReversed().map(
            (other) => html`<option key=${other.turnId} value=${other.turnId}>${other.number} · ${titleOf(other)}</option>`,
          )}
        </select>
      </label>
      <${Turn} key=${turn.turnId} session=${session} turn=${turn} at=${at} onUse=${setWanted} />
    </div>
  `;
}

function titleOf(turn) {
  const text = (turn.text ?? "").trim().split("\n")[0];
  return text.length > TITLE ? `${text.slice(0, TITLE)}…` : text || clock(turn.from);
}

// `onUse` is called with the id of the turn when something of it is opened: it is shown then, whatever comes.
function Turn({ session, turn, at, onUse }) {
  const isLive = turn.until === null && session.moment.value === null;
  const now = useNow(at, isLive);
  const waits = useWaits(session, turn);
  const spans = useMemo(() => spansOf(withQueues(turn, waits), now), [turn, waits, now]);
  const names = useMemo(() => actorNames(spans), [spans]);
  const [zoom, setZoom] = useState(1);
  const [chosen, setChosen] = useState(null);
  const [asked, setAsked] = useState(null);
  const view = useRef();
  const by = useCallback((factor) => setZoom((before) => (factor === 0 ? 1 : Math.min(Math.max(before * factor, 1), CLOSEST))), []);
  const pointed = spans.find(({ key }) => key === chosen);
  const approval = pointed && pointed.kind === "tool" ? spans.find((other) => other.kind === "approval" && other.callId === pointed.callId) : null;
  const open = useCallback((span) => (onUse(turn.turnId), setAsked(span)), []);
  const pick = useCallback((key) => {
    onUse(turn.turnId);
    setChosen(key);
    const row = view.current.querySelector(`[data-row="${CSS.escape(key)}"]`);
    row?.scrollIntoView({ block: "nearest" });
    row?.querySelector("button")?.focus();
  }, []);
  return html`
    <div class="timeline-body" ref=${view}>
      <div class="timeline-tools">
        <span class="legend-line" aria-hidden="true">
          ${["waiting", "thinking", "writing", "tool", "asking"].map(
            (part) => html`<span key=${part}><i class=${`swatch ${part}`}></i>${t(`legend-${part}`)}</span>`,
          )}
        </span>
        <span class="fine">${t(`turn-${turn.status}`)} · ${duration((turn.until ?? now) - turn.from)}</span>
        <div class="actions">
          <button aria-label=${t("zoom-out")} disabled=${zoom <= 1} onClick=${() => by(1 / 1.5)}>−</button>
          <button aria-label=${t("zoom-in")} disabled=${zoom >= CLOSEST} onClick=${() => by(1.5)}>+</button>
          <button disabled=${zoom === 1} onClick=${() => by(0)}>${t("zoom-whole")}</button>
        </div>
      </div>
      <${Picture} turn=${turn} spans=${spans} names=${names} zoom=${zoom} onZoom=${by} chosen=${chosen} onPoint=${setChosen} onPick=${pick} />
      <p class="pointed" aria-hidden="true">${pointed ? sentence(pointed, { turn, names, approval }) : t("timeline-hint")}</p>
      <${SpanTable} session=${session} turn=${turn} spans=${spans} names=${names} chosen=${chosen} onPoint=${setChosen} onRequest=${open} />
      ${asked &&
      html`<${RequestDialog} key=${asked.key} session=${session} callId=${asked.callId} name=${spanName(asked)} onClose=${() => setAsked(null)} />`}
    </div>
  `;
}

/** The server's time, going on from the last event while a turn runs: its clock may differ from this one. */
function useNow(at, isLive) {
  const base = useRef({ at, since: performance.now() });
  const [, tick] = useState(0);
  if (base.current.at !== at) base.current = { at, since: performance.now() };
  useEffect(() => {
    if (!isLive) return;
    const timer = setInterval(() => tick((count) => count + 1), DRAWN_EVERY);
    return () => clearInterval(timer);
  }, [isLive]);
  return isLive ? at + performance.now() - base.current.since : at;
}

/** When calls of the turn waited for a model server: deltas, which the log of the page has for open calls only. */
function useWaits(session, turn) {
  const [waits, setWaits] = useState([]);
  useEffect(() => {
    if (turn.until === null) return;
    const stop = new AbortController();
    const query = new URLSearchParams({ type: "model_waiting", after: String(turn.seq), before: String(turn.endSeq) });
    get(`${pathOf(session.id, "events")}?${query}`, { signal: stop.signal }).then(
      ({ events }) => setWaits(events),
      (error) => {
        if (!stop.signal.aborted && !(error instanceof Problem)) throw error; // then it says less
      },
    );
    return () => stop.abort();
  }, [turn.turnId, turn.until]);
  return waits;
}
