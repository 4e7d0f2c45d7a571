// What the page's modules find in a browser, as far as they need no document: an address, what is kept, frames,
// sockets that stay as they are, and a navi that answers as a program says.

const PATIENCE = 20_000; // ms
const SOON = 0.01; // seconds after which a refused request may be made again

/** What navi is asked, in order: `[method, path]`. */
export const asked = [];
export const sockets = [];

let answers = () => undefined;

/** Have navi answer by `answer(method, path, body, signal)`, where `body` is what was sent as JSON, or a form: JSON, a promise of it, or what `refusal` gives. */
export function answerBy(answer) {
  answers = answer;
}

class Refusal {
  constructor(status, text) {
    this.status = status;
    this.text = text;
  }
}

/** An answer that refuses; without a text it says what a problem of navi says. */
export function refusal(status, text = JSON.stringify({ detail: "later" })) {
  return new Refusal(status, text);
}

async function fetched(path, { method = "GET", body, signal } = {}) {
  asked.push([method, path]);
  const stopped = new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
  const given = await Promise.race([answers(method, path, typeof body === "string" ? JSON.parse(body) : body, signal), stopped]);
  if (given === undefined) throw new TypeError("fetch failed");
  const headers = { "retry-after": String(SOON) };
  if (given instanceof Refusal) return new Response(given.text, { status: given.status, headers });
  return new Response(JSON.stringify(given));
}

class Socket {
  static OPEN = 1;
  readyState = 0;

  constructor(address) {
    this.address = address;
    sockets.push(this);
  }

  /** A frame of navi's. */
  take(frame) {
    this.onmessage({ data: JSON.stringify(frame) });
  }

  send() {}
  close() {}
}

class Storage {
  setItem(name, text) {
    this[name] = String(text);
  }

  getItem(name) {
    return Object.hasOwn(this, name) ? this[name] : null;
  }

  removeItem(name) {
    delete this[name];
  }
}

class Place {
  constructor(address) {
    this.#go(address);
  }

  #go(address) {
    const { origin, host, protocol, pathname, search, hash } = new URL(address, "http://navi.test");
    Object.assign(this, { origin, host, protocol, pathname, search, hash });
  }

  pushState(_state, _title, address) {
    this.#go(address);
  }

  replaceState = this.pushState;

  reloads = 0;

  reload() {
    this.reloads += 1;
  }
}

/** Have all of it at an address, for somebody of some languages. */
export function begin(address = "/", languages = ["en-GB"]) {
  const window = new EventTarget();
  const document = Object.assign(new EventTarget(), { hidden: false, visibilityState: "visible", documentElement: { dataset: {} } });
  const place = new Place(address);
  const had = {
    ...{ document, localStorage: new Storage(), location: place, history: place, navigator: { languages, onLine: true, platform: "" } },
    ...{ fetch: fetched, WebSocket: Socket, requestAnimationFrame: (draw) => setTimeout(draw), cancelAnimationFrame: clearTimeout },
    ...{ addEventListener: window.addEventListener.bind(window), removeEventListener: window.removeEventListener.bind(window) },
    ...{ dispatchEvent: window.dispatchEvent.bind(window) },
    ...{ matchMedia: () => Object.assign(new EventTarget(), { matches: false }) },
  };
  for (const [name, value] of Object.entries(had)) Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
}

/** Wait until something is so. */
export async function until(isSo) {
  const patience = AbortSignal.timeout(PATIENCE);
  while (!isSo()) {
    patience.throwIfAborted();
    await new Promise((again) => setTimeout(again, 1));
  }
}
