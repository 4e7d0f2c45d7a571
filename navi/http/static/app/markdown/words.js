// Text that grows without being replaced: what a reader has marked in it stays marked.

import { Component, html } from "../html.js";

/**
 * A text that may change while it is shown: only what is other at its end is exchanged.
 *
 * A text node that is given a new text as a whole loses the selection within it.
 */
export class Words extends Component {
  shouldComponentUpdate({ text }) {
    const before = this.props.text;
    if (text === before) return false;
    const node = this.node.firstChild;
    let same = 0;
    while (same < before.length && before[same] === text[same]) same++;
    node.replaceData(same, before.length - same, text.slice(same));
    return false;
  }

  render({ text }) {
    return html`<span
      ref=${(node) => {
        this.node = node;
      }}
      >${text}</span
    >`;
  }
}

/**
 * Do something to what an element shows once nothing in it is marked; gives what calls that off.
 */
export function onceUnmarked(element, act) {
  const isMarked = () => {
    const selection = getSelection();
    return selection && !selection.isCollapsed && element.isConnected && selection.containsNode(element, true);
  };
  if (!isMarked()) {
    act();
    return () => {};
  }
  const look = () => {
    if (isMarked()) return;
    end();
    act();
  };
  const end = () => document.removeEventListener("selectionchange", look);
  document.addEventListener("selectionchange", look);
  return end;
}
