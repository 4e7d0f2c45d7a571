// The picture of a turn: time runs right, a lane an actor, a bar a model call in three shades of one colour
// (waiting, thinking, writing), tools between them, idle time folded with a mark.

import { parts } from "../folds/turn_spans.js";
import { html, memo, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../html.js";
import { duration, t } from "../strings.js";
import { LIFE, TRACK, lanesOf } from "./lanes.js";
import { foldedScale, marks } from "./scale.js";
import { sentence, spanName } from "./span_words.js";

const AXIS = 26; // pixels
const EDGE = 12;
const NARROWEST = 3;
const FOLD_NAME = 44; // pixels beside the middle of a fold that its name takes
const LETTER = 6.6; // pixels a letter of a bar's name takes
export const CLOSEST = 64; // times the whole

/**
 * `zoom` is how many times wider than the room there is; `chosen` is the key of the span that is pointed at,
 * told with `onPoint`; `onPick` is called with the key of one that was clicked.
 */
export function Picture({ turn, spans, names, zoom, onZoom, chosen, onPoint, onPick }) {
  const room = useRef();
  const [width, setWidth] = useState(0);
  const anchor = useRef(null);
  useLayoutEffect(() => {
    const watch = new ResizeObserver(([{ contentRect }]) => setWidth(contentRect.width));
    watch.observe(room.current);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    const onWheel = (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      anchor.current = event.clientX - room.current.getBoundingClientRect().left;
      onZoom(event.deltaY < 0 ? 1.25 : 0.8);
    };
    room.current.addEventListener("wheel", onWheel, { passive: false });
    return () => room.current?.removeEventListener("wheel", onWheel);
  }, [onZoom]);
  // What stood under the pointer, or in the middle, stays there.
  const before = useRef(zoom);
  useLayoutEffect(() => {
    const at = anchor.current ?? width / 2;
    room.current.scrollLeft = ((room.current.scrollLeft + at) * zoom) / before.current - at;
    before.current = zoom;
    anchor.current = null;
  }, [zoom]);

  const inner = Math.max(width * zoom, 1);
  const scale = useMemo(() => scaleOf(turn, spans, inner), [turn, spans, inner]);
  const { lanes, links, height } = useMemo(() => lanesOf(spans, AXIS), [spans]);
  const order = lanes.flatMap((lane) => [...(lane.span ? [lane.span] : []), ...lane.bars.map(({ span }) => span)]);
  const focusable = order.some(({ key }) => key === chosen) ? chosen : order[0]?.key;
  const onKeyDown = (event) => {
    const factor = { "+": 1.5, "=": 1.5, "-": 1 / 1.5, 0: 0 }[event.key];
    if (factor !== undefined && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      onZoom(factor);
      return;
    }
    const index = order.findIndex(({ key }) => key === focusable);
    const next = { ArrowRight: index + 1, ArrowDown: index + 1, ArrowLeft: index - 1, ArrowUp: index - 1, Home: 0, End: order.length - 1 }[event.key];
    if (event.key === "Enter" || event.key === " ") onPick(focusable);
    else if (next === undefined) return;
    event.preventDefault();
    if (next === undefined || !order[next]) return;
    onPoint(order[next].key);
    room.current.querySelector(`[data-key="${CSS.escape(order[next].key)}"]`)?.focus();
  };
  const shared = (span) => ({
    span,
    scale,
    turn,
    names,
    isChosen: span.key === chosen,
    tab: span.key === focusable ? 0 : -1,
    onPoint,
    onPick,
  });
  return html`
    <div class="picture">
      <div class="picture-room" ref=${room}>
        <svg role="group" aria-label=${t("timeline")} width=${inner} height=${height} onKeyDown=${onKeyDown}>
          <defs>
            <pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
              <path d="M0 0V6" class="hatch" />
            </pattern>
          </defs>
          ${marksOf(scale, turn.from).map(
            (at) => html`
              <g key=${at} class="mark">
                <path d=${`M${scale.x(at)} ${AXIS - 6}V${height}`} />
                <text x=${scale.x(at)} y="14" text-anchor=${at === turn.from ? "start" : "middle"}>
                  ${at === turn.from ? "0" : duration(at - turn.from)}
                </text>
              </g>
            `,
          )}
          ${lanes.map((lane) => html`<rect key=${lane.actor} class="lane" x="0" y=${lane.top} width=${inner} height=${lane.height} />`)}
          ${links.map(({ span, top, bottom }) => html`<path key=${span.key} class="link" d=${linkOf(span, scale, top, bottom)} />`)}
          ${scale.segments.filter(({ isFolded }) => isFolded).map(
            ({ from, until, left, right }) => html`
              <g key=${from} class="fold">
                <title>${t("idle", { time: duration(until - from) })}</title>
                <path d=${zigzag((left + right) / 2 - 3, AXIS, height)} />
                <path d=${zigzag((left + right) / 2 + 3, AXIS, height)} />
                <text x=${(left + right) / 2} y="14" text-anchor="middle">${duration(until - from)}</text>
              </g>
            `,
          )}
          ${lanes.map(
            ({ span, top, bars }) => html`
              ${span && html`<${Life} key=${span.key} ...${shared(span)} y=${top} />`}
              ${bars.map((bar) => html`<${Bar} key=${bar.span.key} ...${shared(bar.span)} y=${bar.top} height=${bar.height} />`)}
            `,
          )}
        </svg>
      </div>
      ${lanes.map(
        ({ actor, top }) => html`<span key=${actor} class="lane-name" style=${{ top: `${top + 1}px` }} aria-hidden="true">${names.get(actor)}</span>`,
      )}
    </div>
  `;
}

/** What every bar is to those who point at it. */
function handles({ span, turn, names, isChosen, tab, onPoint, onPick }) {
  return {
    "data-key": span.key,
    "data-state": span.state,
    class: `bar ${span.kind}${isChosen ? " chosen" : ""}`,
    role: "img",
    "aria-label": sentence(span, { turn, names }),
    tabindex: tab,
    onPointerEnter: () => onPoint(span.key),
    onFocus: () => onPoint(span.key),
    onClick: () => onPick(span.key),
  };
}

/** From when to when there was a subagent. */
const Life = memo((properties) => {
  const { span, scale, y } = properties;
  const left = scale.x(span.from);
  const right = Math.max(scale.x(span.until), left + NARROWEST);
  return html`
    <g ...${handles(properties)}>
      <rect class="touch" x=${left} y=${y} width=${Math.max(right - left, TRACK)} height="22" />
      <path d=${`M${left} ${y + LIFE}v12M${left} ${y + 20}H${right}`} />
    </g>
  `;
});

const Bar = memo((properties) => {
  const { span, scale, y, height } = properties;
  const left = scale.x(span.from);
  const wide = Math.max(scale.x(span.until) - left, NARROWEST);
  const isHigh = height >= 16;
  const isWrong = span.state === "failed" || span.state === "denied";
  const cross = Math.min(wide, height);
  return html`
    <g ...${handles(properties)}>
      ${isHigh && html`<rect class="touch" x=${left - Math.max(0, (TRACK - wide) / 2)} y=${y - 2} width=${Math.max(wide, TRACK)} height=${TRACK} />`}
      ${span.queuedFrom != null &&
      html`<rect class="queued" x=${scale.x(span.queuedFrom)} y=${y + 4} width=${left - scale.x(span.queuedFrom)} height=${height - 8} />`}
      <rect class="body" x=${left} y=${y} width=${wide} height=${height} rx="2" />
      ${span.kind === "call" &&
      parts(span).map(
        ({ part, from, until }) =>
          html`<rect key=${part} class=${part} x=${scale.x(from)} y=${y} width=${Math.max(scale.x(until) - scale.x(from), 0.5)} height=${height} />`,
      )}
      ${span.kind === "approval" && html`<rect class="hatched" x=${left} y=${y} width=${wide} height=${height} rx="2" />`}
      ${isWrong && html`<path class="cross" d=${`M${left + wide - cross} ${y}l${cross} ${height}m0 ${-height}l${-cross} ${height}`} />`}
      ${isHigh && span.kind !== "approval" && html`<${Name} bar=${span} name=${spanName(span)} scale=${scale} y=${y + 14} />`}
    </g>
  `;
});

function scaleOf(turn, spans, width) {
  const busy = spans.filter(({ kind }) => kind === "call" || kind === "tool");
  const until = turn.until ?? Math.max(turn.from, ...spans.map((span) => span.until));
  const scale = foldedScale(busy, { from: turn.from, until, width: Math.max(width - 2 * EDGE, 1) });
  const segments = scale.segments.map((segment) => ({ ...segment, left: segment.left + EDGE, right: segment.right + EDGE }));
  return { ...scale, segments, x: (at) => scale.x(at) + EDGE };
}

/** The name of a bar, where there is room for it: in a call within its longest part. */
function Name({ bar, name, scale, y }) {
  const places = bar.kind === "call" ? parts(bar) : [{ part: "tool", from: bar.from, until: bar.until }];
  const widths = places.map(({ from, until }) => scale.x(until) - scale.x(from));
  const index = widths.indexOf(Math.max(...widths));
  if (index < 0 || name.length * LETTER > widths[index] - 10) return null;
  return html`<text class=${`name on-${places[index].part}`} x=${scale.x(places[index].from) + 6} y=${y}>${name}</text>`;
}

/** The marks of the axis that do not stand on the name of a fold. */
function marksOf(scale, from) {
  const folds = scale.segments.filter(({ isFolded }) => isFolded).map(({ left, right }) => (left + right) / 2);
  return marks(scale, from).filter((at) => folds.every((middle) => Math.abs(scale.x(at) - middle) > FOLD_NAME));
}

/** From the tool that began a subagent down to its lane, and from there back up, once it has ended. */
function linkOf(span, scale, top, bottom) {
  const [left, right] = [scale.x(span.from), scale.x(span.until)];
  return `M${left} ${top}V${bottom}${span.isOpen ? "" : `M${right} ${bottom + 16}V${top}`}`;
}

function zigzag(x, top, bottom) {
  let path = `M${x} ${top}`;
  for (let y = top, way = 1; y < bottom; y += 8, way = -way) path += `l${3 * way} 4l${-3 * way} 4`;
  return path;
}
