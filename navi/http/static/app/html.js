// What every view is written with: templates that become virtual nodes, hooks and signals.
//
// Nothing here, nor anywhere in the page, takes a string for markup: what models and tools write can
// only become the text of a node.

import { Component, Fragment, createElement, render } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export { Component, Fragment, createElement, render };
export { useCallback, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
export {
  batch,
  computed,
  effect,
  signal,
  untracked,
  useComputed,
  useSignal,
  useSignalEffect,
} from "../vendor/signals.js";

export const html = htm.bind(createElement);

/** A view that is drawn again only when `isSame(before, after)` says no of its properties. */
export function memo(view, isSame = sameObjects) {
  return class extends Component {
    shouldComponentUpdate(next) {
      return !isSame(this.props, next);
    }

    render(props) {
      return createElement(view, props);
    }
  };
}

function sameObjects(before, after) {
  const names = Object.keys(after);
  return names.length === Object.keys(before).length && names.every((name) => after[name] === before[name]);
}
