// All events as ticks, a colour, a height and a place for each kind.

import { seqsByKind, ticks } from "../folds/event_kinds.js";
import { html, memo, useEffect, useState } from "../html.js";

const DRAWN_EVERY = 250; // ms, while a turn runs
// Where the ticks of a kind stand, of 100: no two kinds look the same without their colours.
export const PLACES = {
  other: [62, 72],
  tool: [50, 84],
  plan: [34, 66],
  message: [18, 84],
  compression: [4, 96],
  profile: [4, 50],
  approval: [56, 98],
  error: [0, 100],
};
export const ORDER = ["other", "tool", "plan", "message", "compression", "profile", "approval", "error"];

export function Strip({ session, isLoaded }) {
  const head = useSlow(session.log.head.value);
  return html`<${Ticks} log=${session.log} head=${head} from=${session.log.from} isLoaded=${isLoaded} />`;
}

const Ticks = memo(({ log, head, from }) => {
  const seqs = seqsByKind(log.facts);
  const width = Math.max(head, 1);
  return html`
    <svg class="ticks" viewBox=${`0 0 ${width} 100`} preserveAspectRatio="none" aria-hidden="true">
      ${from > 0 && html`<rect class="not-loaded" x="0" y="40" width=${from} height="50" />`}
      ${ORDER.map((kind) => {
        const [top, bottom] = PLACES[kind];
        return html`<path key=${kind} class=${`tick ${kind}`} d=${ticks(seqs[kind], width, { top, bottom })} />`;
      })}
    </svg>
  `;
});

/** A value that changes at most every quarter of a second. */
function useSlow(value) {
  const [slow, setSlow] = useState({ value, at: 0 });
  useEffect(() => {
    if (slow.value === value) return;
    const wait = Math.max(0, slow.at + DRAWN_EVERY - performance.now());
    const timer = setTimeout(() => setSlow({ value, at: performance.now() }), wait);
    return () => clearTimeout(timer);
  }, [value]);
  return slow.value;
}
