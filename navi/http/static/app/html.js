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

/** A view that is drawn again only when one of its properties is another object than before. */
export function memo(view) {
  return class extends Component {
    shouldComponentUpdate(next) {
      const before = this.props;
      const names = Object.keys(next);
      return names.length !== Object.keys(before).length || names.some((name) => next[name] !== before[name]);
    }

    render(props) {
      return createElement(view, props);
    }
  };
}
