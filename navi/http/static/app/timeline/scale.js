// Where a time stands in the picture of a turn: in proportion, but idle time, in which no model and no tool
// was at work, is folded to a narrow mark.

const SHORTEST_FOLD = 1_500; // ms
const SHARE = 0.12; // of the time at work, that idle time has to exceed
const FOLD_WIDTH = 40; // pixels
const STEPS = [1, 2, 5];

/**
 * The scale of a turn: `{segments: [{from, until, left, right, isFolded}], x(time)}`.
 *
 * `busy` are spans `{from, until}` in which something was at work, in any order.
 */
export function foldedScale(busy, { from, until, width }) {
  const gaps = idle(busy, from, until);
  const folds = gaps.filter((gap) => gap.until - gap.from > Math.max(SHORTEST_FOLD, SHARE * (until - from - total(gaps))));
  const shown = Math.max(until - from - total(folds), 1e-3);
  const perMs = Math.max(width - folds.length * FOLD_WIDTH, FOLD_WIDTH) / shown;
  const segments = [];
  let time = from;
  let left = 0;
  const push = (end, right, isFolded) => {
    if (end > time || isFolded) segments.push({ from: time, until: end, left, right, isFolded });
    time = end;
    left = right;
  };
  for (const fold of folds) {
    push(fold.from, left + (fold.from - time) * perMs, false);
    push(fold.until, left + FOLD_WIDTH, true);
  }
  push(until, left + (until - time) * perMs, false);
  const x = (at) => {
    const segment = segments.find((other) => at <= other.until) ?? segments.at(-1);
    if (!segment) return 0;
    const share = (at - segment.from) / Math.max(segment.until - segment.from, 1e-3);
    return segment.left + Math.min(Math.max(share, 0), 1) * (segment.right - segment.left);
  };
  return { segments, x, perMs };
}

/** The times at which the axis has a mark, about every `apart` pixels. */
export function marks(scale, from, apart = 90) {
  const wanted = apart / scale.perMs;
  const power = 10 ** Math.floor(Math.log10(wanted));
  const step = (STEPS.find((factor) => factor * power >= wanted) ?? 10) * power;
  const found = [];
  for (const segment of scale.segments) {
    if (segment.isFolded) continue;
    for (let n = Math.ceil((segment.from - from) / step); from + n * step <= segment.until; n++) found.push(from + n * step);
  }
  return found;
}

function idle(busy, from, until) {
  const gaps = [];
  let reached = from;
  for (const span of busy.toSorted((a, b) => a.from - b.from)) {
    if (span.from > reached) gaps.push({ from: reached, until: span.from });
    reached = Math.max(reached, span.until);
  }
  if (until > reached) gaps.push({ from: reached, until });
  return gaps;
}

function total(spans) {
  return spans.reduce((sum, { from, until }) => sum + until - from, 0);
}
