// Requests to navi. An answer that refuses becomes a `Problem`, in the words that navi gave.

import { heardAt } from "./clock.js";
import { effect, signal, untracked } from "./html.js";
import { t } from "./strings.js";

/** Whether navi wants to know who asks; the page then shows the form to sign in. */
export const signedOut = signal(false);
/** How often somebody has signed in. */
export let logins = 0;
export const loginBegan = () => logins++;

const SECONDS = 30;
const AGAIN_AFTER = 2; // seconds before another try, unless navi says otherwise
const UNCHANGED = 304;

/** A request that was refused, or that nobody answered (`status` 0). */
export class Problem extends Error {
  constructor(status, text, retryAfter = null) {
    super(text);
    this.status = status;
    this.retryAfter = retryAfter; // seconds, where navi says so
  }

  /** Whether the same request may do better later. */
  get mayPass() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }

  /** Milliseconds before another try. */
  get wait() {
    return (this.retryAfter ?? AGAIN_AFTER) * 1000;
  }
}

/**
 * Ask navi; gives the JSON of the answer, null where it has none. With `hasPassword` a 401 is about the password
 * in the body, and says nothing of who asks.
 *
 * @throws {Problem} it was refused, or there was no answer.
 */
export async function ask(method, path, options) {
  const response = await request(method, path, options);
  return response.status === 204 ? null : read(response);
}

/**
 * Ask for what may be as it was: `{tag, answer}`, where `answer` is null if it still is what `tag` stands for.
 *
 * @throws {Problem} it was refused, or there was no answer.
 */
export async function getChanged(path, tag) {
  const response = await request("GET", path, { headers: tag ? { "If-None-Match": tag } : {} });
  if (response.status === UNCHANGED) return { tag, answer: null };
  return { tag: response.headers.get("etag"), answer: await read(response) };
}

/** As `ask`; gives the `Response`. */
export async function request(method, path, asked = {}) {
  const { body, form, headers = {}, seconds = SECONDS, signal: stop, hasPassword } = asked;
  const limit = AbortSignal.timeout(seconds * 1000);
  const options = { method, signal: stop ? AbortSignal.any([stop, limit]) : limit, headers: { ...headers } };
  if (form) options.body = form;
  else if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  const [askedAt, login] = [Date.now(), logins];
  const response = await fetch(path, options).catch((error) => {
    if (stop?.aborted) throw error;
    throw new Problem(0, t("no-answer"));
  });
  heardAt(response.headers.get("date"), askedAt);
  if (response.ok || response.status === UNCHANGED) return response;
  if (response.status === 401 && !hasPassword) {
    if (login !== logins) return request(method, path, asked); // that was about the login before
    signedOut.value = true;
  }
  throw await problemOf(response);
}

/** The JSON of an answer; a connection that is cut within it is as one that never was. */
function read(response) {
  return response.json().catch(() => {
    throw new Problem(0, t("no-answer"));
  });
}

/** Read what the page lives by whenever somebody signs in, and again as long as navi does not give it. */
export function keepAsking(read) {
  let timer = null;
  const attempt = () =>
    read().catch((error) => {
      if (!(error instanceof Problem)) throw error;
      if (error.mayPass) timer = setTimeout(attempt, error.wait);
    });
  effect(() => {
    clearTimeout(timer);
    if (!signedOut.value) untracked(attempt);
  });
}

export const get = (path, options) => ask("GET", path, options);
export const post = (path, body, options) => ask("POST", path, { body, ...options });
export const patch = (path, body) => ask("PATCH", path, { body });
export const remove = (path) => ask("DELETE", path);

async function problemOf(response) {
  // What stands between the page and navi has no words for people.
  const detail = (await response.json().catch(() => null))?.detail;
  const text = detail ? detail.charAt(0).toUpperCase() + detail.slice(1) : t("answered-with", { status: response.status });
  const seconds = Number(response.headers.get("retry-after"));
  return new Problem(response.status, text, seconds > 0 ? seconds : null);
}

/** The path of a session, or of something in it. */
export function pathOf(sessionId, ...parts) {
  return ["/sessions", ...[sessionId, ...parts].map(encodeURIComponent)].join("/");
}
