// How full the model's window is: a bar of what fills it, with the number beside it.

import { buffers } from "../folds/context.js";
import { html } from "../html.js";
import { addressOf, follow, route } from "../router.js";
import { compression } from "../session/profiles.js";
import { t, tokens } from "../strings.js";
import { PARTS, fixedPart, sharesOf } from "./shares.js";

/** The state, shares and window that gauge and view show; `isExact` of the view, which tells the parts by name. */
export function useWindow(session, isExact = false) {
  const state = session.fold(buffers);
  const window = session.row.value?.context_window ?? null;
  const lengths = state.lastCall?.isAnswered ? fixedPart(session.id, state.lastCall, isExact).value : null;
  return { state, window, shares: sharesOf(state, lengths), threshold: compression.value };
}

export function Gauge({ session }) {
  const { window, shares, threshold } = useWindow(session);
  if (!window) return null;
  const used = shares?.used ?? 0;
  const place = { ...route.value, view: "context" };
  const percent = Math.round((100 * used) / window);
  const numbers = t("gauge", { percent, used: tokens(used), window: tokens(window) });
  return html`
    <div class="gauge">
      <${Bar} shares=${shares} window=${window} threshold=${threshold} percent=${percent} text=${numbers} />
      <a class="fine" href=${addressOf(place)} onClick=${(event) => follow(event, place)}>${numbers}</a>
    </div>
  `;
}

/** The bar; its parts are told apart by their order and, in the view, by the table beside it. */
export function Bar({ shares, window, threshold, percent, text }) {
  return html`
    <div
      class="bar"
      role="meter"
      aria-label=${t("context")}
      aria-valuenow=${percent}
      aria-valuemin="0"
      aria-valuemax="100"
      aria-valuetext=${text}
    >
      ${shares &&
      PARTS.map(
        (part) => html`<span key=${part} data-part=${part} style=${{ width: `${(100 * shares.parts[part]) / window}%` }}></span>`,
      )}
      ${threshold && html`<i class="threshold" style=${{ left: `${100 * threshold}%` }} title=${t("gauge-threshold", { percent: Math.round(100 * threshold) })}></i>`}
    </div>
  `;
}
