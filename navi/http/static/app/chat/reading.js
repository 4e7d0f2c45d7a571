// Where somebody reads in a conversation: at its end, which is followed as it grows, or further up, where
// nothing may move what is being read.

import { signal } from "../html.js";
import { doing } from "../session/open_session.js";
import { END, around, earlier, indexAt, indicesOf, later, partsOf, pinned } from "./shown_range.js";

const NEAR = 48; // pixels from the end within which scrolling down ends there
const AHEAD = 1.5; // windows before what is not drawn yet at which it is
const MARGIN = 200; // events before one that is looked for: where its turn and its call began

export class Reading {
  constructor(session) {
    this._session = session;
    /** What is drawn; see shown_range.js. */
    this.range = signal(END);
    /** The last part when the reader left the end; null while there. */
    this.leftAt = signal(null);
    /** The key of what the address led to. */
    this.found = signal(null);
    this._follows = true;
    this._top = 0;
    this._anchor = null;
    this._busy = false;
    this._drawn = [];
  }

  /** Begin with the element that scrolls, and the one in it that grows; gives what ends it. */
  attach(box, content) {
    this._box = box;
    const sizes = new ResizeObserver(() => this._follow());
    sizes.observe(box);
    sizes.observe(content);
    return () => sizes.disconnect();
  }

  /** The page has been drawn anew. */
  drawn() {
    const box = this._box;
    if (this._anchor) {
      const { key, top } = this._anchor;
      this._anchor = null;
      const element = this._elementOf(key);
      if (element) box.scrollTop += element.getBoundingClientRect().top - top;
      this._top = box.scrollTop;
    } else this._follow();
    for (const done of this._drawn.splice(0)) done();
    if (box.scrollHeight <= box.clientHeight && box.clientHeight > 0 && !this.isAtBeginning) this.showEarlier();
  }

  get _parts() {
    return partsOf(this._session.conversation.peek());
  }

  /** Whether nothing stands before what is drawn. */
  get isAtBeginning() {
    return this._session.log.from === 0 && indicesOf(this.range.peek(), this._parts)[0] === 0;
  }

  scrolled() {
    const box = this._box;
    const rest = box.scrollHeight - box.scrollTop - box.clientHeight;
    const isUp = box.scrollTop < this._top - 1;
    this._top = box.scrollTop;
    const isEnd = this.range.peek().last === null;
    if (isEnd && rest < (isUp ? 4 : NEAR)) {
      if (!this._follows) this.toEnd();
    } else if (isUp && this._follows) {
      // What was shorter for a moment has moved it, and the observer tells of it next: nobody has scrolled.
      if (this._size !== sizeOf(box)) this._follow();
      else this._leave();
    }
    const ahead = AHEAD * box.clientHeight;
    if (isUp && box.scrollTop < ahead) this.showEarlier();
    else if (!isUp && !isEnd && rest < ahead) this.showLater();
  }

  /** Go to the end and follow it. */
  toEnd() {
    this._follows = true;
    this.leftAt.value = null;
    return this._show(END, { keeps: false });
  }

  /** Go to the beginning of it all. */
  async toBeginning() {
    this._leave();
    if (!(await doing(() => this._session.log.reach(0)))) return;
    await this._show(around(0, this._parts), { keeps: false });
    this._box.scrollTop = 0;
  }

  /** Draw more of what came before; gives whether there was any. */
  async showEarlier() {
    if (this._busy || this.isAtBeginning) return false;
    this._busy = true;
    try {
      if (indicesOf(this.range.peek(), this._parts)[0] === 0) {
        this.range.value = pinned(this.range.peek(), this._parts);
        this._anchor = this._firstInView();
        const { log } = this._session;
        if (!(await doing(() => log.reach(log.from - 1)))) return false;
      }
      await this._show(earlier(this.range.peek(), this._parts));
    } finally {
      this._busy = false;
    }
    if (this._box.scrollTop < this._box.clientHeight / 2 && !this._follows) await this.showEarlier();
    return true;
  }

  /** Draw more of what came after; gives whether there was any. */
  async showLater() {
    if (this._busy || this.range.peek().last === null) return false;
    await this._show(later(this.range.peek(), this._parts));
    return true;
  }

  /** Look at what stands at a seq. */
  async goTo(seq) {
    const { log } = this._session;
    this._leave();
    if (log.from >= seq - MARGIN && !(await doing(() => log.reach(Math.max(0, seq - MARGIN))))) return;
    const parts = this._parts;
    const index = indexAt(seq, parts);
    if (index < 0) return;
    const { key } = parts[index];
    this.found.value = key;
    await this._show(around(index, parts), { keeps: false });
    const element = this._elementOf(key);
    const article = element?.querySelector("article");
    if (article) focus(article);
    element?.scrollIntoView({ block: "start" });
    this._top = this._box.scrollTop;
  }

  _leave() {
    if (!this._follows) return;
    this._follows = false;
    const parts = this._parts;
    this.leftAt.value = parts.at(-1) ?? {};
    this.range.value = pinned(this.range.peek(), parts);
  }

  // What somebody marks must not move under the pointer.
  _follow() {
    this._size = sizeOf(this._box);
    if (!this._follows || this._anchor || this.range.peek().last !== null || isMarkedIn(this._box)) return;
    this._box.scrollTop = this._box.scrollHeight;
    this._top = this._box.scrollTop;
  }

  /** Draw another range, and wait for it; what is at the top of the window stays there if it `keeps`. */
  _show(range, { keeps = true } = {}) {
    this._anchor = keeps && !this._follows ? this._firstInView() : null;
    return new Promise((done) => {
      this._drawn.push(done);
      this.range.value = { ...range };
    });
  }

  _firstInView() {
    const edge = this._box.getBoundingClientRect().top;
    for (const element of this._box.querySelectorAll("[data-key]")) {
      const { top, bottom } = element.getBoundingClientRect();
      if (bottom > edge && bottom > top) return { key: element.dataset.key, top };
    }
    return null;
  }

  _elementOf(key) {
    return this._box.querySelector(`[data-key="${CSS.escape(key)}"]`);
  }
}

const sizeOf = (box) => `${box.clientHeight} ${box.scrollHeight}`;

/** Give an article of the conversation the focus; keys move on from there. */
export function focus(article) {
  article.tabIndex = -1;
  article.focus({ preventScroll: true });
}

function isMarkedIn(element) {
  const selection = getSelection();
  return Boolean(selection && !selection.isCollapsed && element.contains(selection.anchorNode));
}

/** Give the input the focus. */
export function focusInput() {
  document.querySelector(".composer textarea")?.focus();
}

/** Move between the articles of a conversation by the keys that are for it. */
export async function onKey(event, reading) {
  const { target, currentTarget: box } = event;
  if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.key === "Escape") {
    focusInput();
    return;
  }
  const key = { j: "ArrowDown", k: "ArrowUp" }[event.key] ?? event.key;
  if (!["ArrowDown", "ArrowUp", "Home", "End"].includes(key) || (target !== box && target.localName !== "article")) return;
  event.preventDefault();
  const articles = () => [...box.querySelectorAll("article")];
  const go = (article, block = "nearest") => {
    if (!article) return;
    focus(article);
    article.scrollIntoView({ block });
  };
  if (key === "Home") {
    await reading.toBeginning();
    go(articles()[0], "start");
  } else if (key === "End") {
    await reading.toEnd();
    go(articles().at(-1), "end");
  } else if (target === box) {
    const { top, bottom } = box.getBoundingClientRect();
    const seen = articles().filter((article) => {
      const place = article.getBoundingClientRect();
      return place.bottom > top && place.top < bottom;
    });
    go(key === "ArrowUp" ? seen.at(-1) : seen[0]);
  } else {
    const step = key === "ArrowUp" ? -1 : 1;
    const next = () => articles()[articles().indexOf(target) + step];
    if (articles().indexOf(target) + step < 0) {
      if (await reading.showEarlier()) go(articles()[articles().indexOf(target) - 1]);
    } else if (next()) go(next());
    else if (await reading.showLater()) go(next());
  }
}
