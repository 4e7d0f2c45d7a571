// Where links and pictures lead, and what of it is let through: a model may have been told to lie.

import { pathOf } from "../api.js";
import { decoded } from "./lex.js";

const SCHEMES = new Set(["http:", "https:", "mailto:"]);
// A picture that carries itself; SVG may run, and stays outside.
const PICTURE = /^data:image\/(?:png|jpeg|webp|gif);base64,[\w+/=\s-]*$/i;
// A file of the session by its name alone, or as an upload, as tools write of it.
const FILE = /^(?:\.\/)?(uploads\/)?([\w][\w .()+-]{0,120}\.\w{1,8})$/;
const ADDRESS = /(?:[a-z][a-z0-9+.-]*:\/\/|www\.)[^\s/?#]+|^[^\s/?#@]+\.[a-z]{2,}(?=[/?#:]|$)/i;

// They turn the direction of text around, or are not seen: Unicode's ignorable ones, and marks of notes.
const UNSEEN = /[\p{DI}\ufff9-\ufffb]/gu;
// Joiners and selectors of variants make one sign of several, or another of one.
const SHAPING = /[\u180b-\u180d\u180f\u200c\u200d\ufe00-\ufe0f\u{e0100}-\u{e01ef}]/u;

/** A text without characters that make it look other than it is. */
export function honest(text) {
  return text.replace(UNSEEN, (each) => (SHAPING.test(each) ? each : ""));
}

/**
 * Where a link leads: `{href, host}`, or null where it may lead nowhere. `host` is given where the text of
 * the link does not say, or says otherwise, whom one asks; else it is null. `session`: the one whose files are meant.
 */
export function linkOf(address, text, session = null) {
  const written = decoded(address).trim();
  const file = fileOf(written, session);
  if (file) return { href: file, host: null };
  const url = parsed(written);
  if (!url || !SCHEMES.has(url.protocol)) return null;
  if (url.protocol === "mailto:") return { href: url.href, host: named(text, decodeURI_(url.pathname)) };
  return { href: url.href, host: hides(url, text) ? url.host : null };
}

/** What a picture is: `{kind: "here" | "remote", href, host}`, or null where it can be neither shown nor asked for. */
export function pictureOf(address, session = null) {
  const written = decoded(address).trim();
  if (PICTURE.test(written)) return { kind: "here", href: written };
  const file = fileOf(written, session);
  if (file) return { kind: "file", href: file };
  const url = parsed(written);
  if (!url || (url.protocol !== "http:" && url.protocol !== "https:")) return null;
  return { kind: "remote", href: url.href, host: url.host };
}

function fileOf(written, session) {
  const [, uploads, name] = (session && FILE.exec(written)) ?? [];
  return name ? pathOf(session.id, uploads || session.hasUpload(name) ? "files" : "workspace", name) : null;
}

function parsed(written) {
  if (/[\u0000-\u001f\u007f]/.test(written)) return null;
  return URL.canParse(written) ? new URL(written) : null;
}

/** Whether a link's text makes one believe in another host than its own. */
function hides(url, text) {
  // `user@host` is read as `user`; a name in another alphabet as one in ours.
  if (url.username || url.password || /(?:^|\.)xn--/.test(url.hostname)) return true;
  const said = ADDRESS.exec(text.replace(UNSEEN, "").trim())?.[0];
  if (!said) return false;
  const claimed = parsed(/^[a-z][a-z0-9+.-]*:\/\//i.test(said) ? said : `http://${said}`);
  return !claimed || bare(claimed.host) !== bare(url.host);
}

const bare = (host) => host.replace(/^www\./, "");

/** The address of a mail, where the text names another one. */
function named(text, address) {
  const said = /[^\s<>@]+@[^\s<>@]+/.exec(honest(text))?.[0];
  return said && said !== address ? address : null;
}

function decodeURI_(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
