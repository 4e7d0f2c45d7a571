// The strip of all events with the slider "Moment", below every view: what one drags it to is what all
// views show.

import { html, useEffect, useRef, useState } from "../html.js";
import { lazy } from "../lazy.js";
import { go, route } from "../router.js";
import { countUntil } from "../session/event_log.js";
import { isForeign } from "../session/me.js";
import { doing } from "../session/open_session.js";
import { t } from "../strings.js";
import { momentWords } from "./event_words.js";
import { Strip } from "./strip.js";

const MomentPanel = lazy(() => import("./moment_panel.js").then((module) => module.MomentPanel), { isQuiet: true });
const Comparison = lazy(() => import("./comparison.js").then((module) => module.Comparison), { isQuiet: true });

const FEW = 2_000; // events that are loaded without being asked for
const LOOKS_EVERY = 60; // ms, while the slider is dragged

export function MomentBar({ session }) {
  const { log } = session;
  const head = log.head.value;
  const isLoaded = log.grown.value > 0 && log.isWhole;
  const at = session.moment.value;
  const shown = useLook(session, at);
  const slider = useRef();
  const seq = shown.seq ?? at ?? head;
  const isNow = shown.seq === null && at === null;

  const want = () => doing(() => log.reach(0));
  useEffect(() => {
    if (at !== null || head <= FEW) want();
  }, [at === null, head <= FEW]);

  const words = momentWords(seq, log.facts, countUntil(log.facts, seq));
  const onKeyDown = (event) => {
    const way = { PageUp: 1, PageDown: -1 }[event.key];
    if (!way) return;
    event.preventDefault();
    // Where the turns before begin is known once they are here.
    Promise.resolve(log.isWhole || want()).then(() => shown.look(turnFrom(log.facts, slider.current.valueAsNumber, way, head)));
  };
  return html`
    ${at !== null && html`<${MomentPanel} session=${session} at=${at} />`}
    <div class="moments" data-now=${isNow}>
      <div class="strip">
        <${Strip} session=${session} isLoaded=${isLoaded} />
        <input
          ref=${slider}
          type="range"
          aria-label=${t("moment")}
          aria-valuetext=${words}
          min="0"
          max=${head}
          step="1"
          value=${seq}
          onInput=${({ target }) => shown.look(target.valueAsNumber)}
          onChange=${shown.settle}
          onKeyDown=${onKeyDown}
          onFocus=${want}
          onPointerEnter=${want}
        />
      </div>
      ${at === null && html`<span class="moment-words fine" aria-hidden="true">${isNow ? t("moment-events", { count: head }) : words}</span>`}
      <div class="moment-actions">
        <button onClick=${() => (shown.forget(), session.lookAt(null, { replace: false }))}>${t("now")}</button>
        <button disabled=${seq === 0 || isForeign(session)} onClick=${() => session.fork(seq)}>${t("fork-here")}</button>
        <button onClick=${() => go({ ...route.value, compare: "" })}>${t("compare")}</button>
      </div>
    </div>
    ${route.value.compare !== null && html`<${Comparison} session=${session} />`}
  `;
}

/**
 * What the slider stands at while it moves faster than the views follow: `{seq, look(seq), settle(), forget()}`.
 *
 * At its right end it is let go of: now goes on.
 */
function useLook(session, at) {
  const [seq, setSeq] = useState(null);
  const wanted = useRef(null);
  const timer = useRef(null);
  const settle = () => {
    clearTimeout(timer.current);
    timer.current = null;
    if (wanted.current === null) return;
    const to = wanted.current;
    wanted.current = null;
    session.lookAt(to >= session.log.head.value ? null : to);
    setSeq(null);
  };
  useEffect(() => () => clearTimeout(timer.current), []);
  return {
    seq,
    look(to) {
      wanted.current = to;
      setSeq(to);
      timer.current ??= setTimeout(settle, LOOKS_EVERY);
    },
    settle,
    forget() {
      wanted.current = null;
      settle();
      setSeq(null);
    },
  };
}

/** Where the next turn begins, or the one before; the ends of the log where there is none. */
function turnFrom(facts, seq, way, head) {
  const starts = facts.filter(({ type }) => type === "turn_started").map((event) => event.seq);
  const found = way > 0 ? starts.find((start) => start > seq) : starts.findLast((start) => start < seq);
  return found ?? (way > 0 ? head : 0);
}
