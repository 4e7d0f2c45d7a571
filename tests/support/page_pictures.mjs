// Folds recorded events as the page's pictures do: `node page_pictures.mjs < {"sessions", "pairs"}`, lists of
// envelopes, and pairs of lists of messages to compare; prints what comes of each.
import { readFileSync } from "node:fs";

const APP = new URL("../../navi/http/static/app/", import.meta.url);
const { parts, spansOf, turnSpans } = await import(new URL("folds/turn_spans.js", APP));
const { usageSoFar } = await import(new URL("folds/usage_so_far.js", APP));
const { seqsByKind, ticks } = await import(new URL("folds/event_kinds.js", APP));
const { foldedScale, marks } = await import(new URL("timeline/scale.js", APP));
const { lanesOf } = await import(new URL("timeline/lanes.js", APP));
const { inSight, topOf } = await import(new URL("events/rows.js", APP));
const { filtered, textOf } = await import(new URL("events/event_text.js", APP));
const { compareMessages, compareWords } = await import(new URL("moments/alignment.js", APP));
const DELTAS = new Set(["text_delta", "thinking_delta", "tool_output_delta", "model_waiting"]);

/** Freeze a state, so that a fold that changes one in place fails. */
function frozen(value) {
  if (value && typeof value === "object" && !Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(frozen);
  }
  return value;
}

const micros = (time) => Math.round(time * 1000);

function turnsOf(events) {
  const state = events.reduce((before, event) => frozen(turnSpans.apply(before, event)), frozen(turnSpans.initial()));
  return state.turns.map((turn) => {
    const spans = spansOf(turn, state.at);
    return {
      turnId: turn.turnId,
      status: turn.status,
      spans: spans.map(({ kind, seq, from, until, state: how }) => [kind, seq, micros(from), micros(until), how]),
      // What its parts are short of a call, in microseconds.
      short: spans
        .filter(({ kind }) => kind === "call")
        .map((call) => micros(call.until - call.from - parts(call).reduce((sum, { from, until }) => sum + until - from, 0))),
    };
  });
}

/** What is wrong with the picture of a turn: bars of one track that overlap, an axis that runs back. */
function faultsOf(events) {
  const state = events.reduce(turnSpans.apply, turnSpans.initial());
  return state.turns.flatMap((turn) => {
    const spans = spansOf(turn, state.at);
    const { lanes, links } = lanesOf(spans, 0);
    const bars = lanes.flatMap((lane) => lane.bars);
    const faults = bars.flatMap(({ span, top }, index) =>
      bars.slice(index + 1).some(({ span: other, top: beside }) => top === beside && span.from < other.until && other.from < span.until)
        ? [`${span.key} overlaps`]
        : [],
    );
    const begun = spans.filter(({ kind, parent }) => kind === "subagent" && bars.some(({ span }) => span.key === parent));
    if (links.length !== begun.length || links.some(({ top, bottom }) => top >= bottom)) faults.push("a subagent is not tied to what began it");
    if (bars.length + lanes.length - 1 !== spans.length) faults.push("a span has no bar");
    const busy = spans.filter(({ kind }) => kind === "call" || kind === "tool");
    const until = turn.until ?? Math.max(turn.from, ...spans.map((span) => span.until));
    const scale = foldedScale(busy, { from: turn.from, until, width: 1000 });
    const xs = [turn.from, ...marks(scale, turn.from), until].map(scale.x);
    if (xs.some((x, i) => x < (xs[i - 1] ?? 0) || x > 1000.001)) faults.push(`the axis runs back: ${xs}`);
    return faults;
  });
}

function pictureOf(events) {
  const facts = events.filter(({ type }) => !DELTAS.has(type));
  const usages = [];
  facts.reduce((before, event) => (usages.push(usageSoFar.apply(before, event)), usages.at(-1)), usageSoFar.initial());
  const kinds = seqsByKind(facts);
  const head = facts.at(-1).seq;
  const drawn = Object.values(kinds).map((seqs) => ticks(seqs, head, { top: 0, bottom: 1 }).split("M").length - 1);
  const texts = facts.map(textOf);
  const widest = Math.max(...Object.values(kinds).flatMap((seqs) => [...ticks(seqs, head, { top: 0, bottom: 1 }).matchAll(/M([\d.]+) /g)].map(([, x]) => Number(x))));
  return { widest, texts, faults: faultsOf(facts), turns: turnsOf(events), ofFacts: turnsOf(facts), usages, kinds, drawn };
}

const { sessions, pairs } = JSON.parse(readFileSync(0, "utf8"));
const compared = pairs.map(([a, b]) => {
  const rows = compareMessages(a, b);
  const words = rows.map((row) => (row.kind === "changed" ? compareWords(row.a.content, row.b.content) : null));
  return { rows, words };
});
const idle = foldedScale(
  [
    { from: 0, until: 100 },
    { from: 3_600_100, until: 3_600_200 },
  ],
  { from: 0, until: 3_600_200, width: 1040 },
);
const open = [3, 5_000];
const tables = [0, 1, 4_000, 170_000, 510_000].map((scrollTop) => {
  const [first, last] = inSight({ count: 15_000, open, scrollTop, height: 600, more: 0 });
  return { first, last, covers: topOf(first, open) <= scrollTop && topOf(last, open) >= Math.min(scrollTop + 600, topOf(15_000, open)) };
});
const some = sessions[0] ?? [];
const searched = filtered(some, { type: "tool_finished", actor: "", text: " IS ok " }).map(({ seq }) => seq);
process.stdout.write(
  JSON.stringify({ sessions: sessions.map(pictureOf), compared, tables, searched, folded: idle.segments.map(({ left, right, isFolded }) => [left, right, isFolded]) }),
);
