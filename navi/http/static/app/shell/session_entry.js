// One session in the list: its name, what goes on in it, and what can be done with it.

import { status } from "../announce.js";
import { focusBeside } from "../focus.js";
import { MoreIcon, PencilIcon, PinIcon, PinOffIcon, TrashIcon, UndoIcon } from "../icons.js";
import { html, memo, signal, useLayoutEffect, useRef, useState } from "../html.js";
import { addressOf, follow, go, route } from "../router.js";
import { isUnread, watched } from "../session/seen.js";
import { changeSession, deleteSession, keepSession, leaving, waits } from "../session/session_list.js";
import { ago, t, time } from "../strings.js";
import { isComposed } from "./keys.js";
import { nameOf } from "./session_groups.js";

const NAME_LENGTH = 200; // characters, at most
const minute = signal(0); // raised as time goes by, for what says how long ago something was
setInterval(() => minute.value++, 30_000);

/** The session whose name is being changed, or null; see `beginRenaming`. */
export const renaming = signal(null);
// What is written of its name so far, and where: in the list it may be drawn anew, as when its turn ends.
let written = null;

/** Change the name of a session in its place in the list. */
export function beginRenaming(id) {
  written = null;
  renaming.value = id;
}

/** "waiting", "running", "unread" or "quiet". */
function stateOf(session) {
  if (waits(session)) return "waiting";
  if (session.status === "running") return "running";
  return watched.value !== session.id && isUnread(session) ? "unread" : "quiet";
}

/**
 * An item of the list. Everything that can change comes as a property, so that of hundreds of them only
 * those are drawn again in which something did.
 *
 * `isStop`: whether Tab comes to it; arrows go on from there, so that all sessions are one stop.
 */
export const SessionEntry = memo(function SessionEntry({ isLeaving, isRenaming, ...shown }) {
  if (isLeaving) return html`<${Leaving} session=${shown.session} />`;
  return isRenaming ? html`<${Renaming} session=${shown.session} />` : html`<${Entry} ...${shown} />`;
});

/** The properties of a session's item, as they are now. */
export function shownOf(session) {
  const state = stateOf(session);
  void minute.value;
  return {
    session,
    state,
    age: state === "quiet" ? ago(session.last_active ?? session.created_at) : null,
    isCurrent: route.value.sessionId === session.id,
    isLeaving: leaving.value.has(session.id),
    isRenaming: renaming.value === session.id,
  };
}

function Entry({ session, state, age, isCurrent, isStop }) {
  const [isOpen, setOpen] = useState(false);
  const link = useRef();
  const place = { sessionId: session.id };
  const stateId = `state-${session.id}`;
  const tabIndex = isStop ? 0 : -1;
  const at = session.last_active ?? session.created_at;
  useLayoutEffect(() => {
    if (back === session.id) {
      back = null;
      link.current.focus();
    }
  }, []);
  const rename = () => beginRenaming(session.id);
  const pin = () => changeSession(session, { pinned: !session.pinned });
  const leave = () => {
    deleteSession(session.id);
    status.value = t("deleted", { name: nameOf(session) });
    if (route.peek().sessionId === session.id) go({});
  };
  const onKeyDown = (event) => {
    const run = { F2: rename, Delete: leave }[event.key];
    if (!run) return;
    event.preventDefault();
    run();
  };
  return html`
    <li class=${isOpen ? "entry open" : "entry"} data-session=${session.id} data-state=${state}>
      <a
        ref=${link}
        href=${addressOf(place)}
        dir="auto"
        aria-current=${isCurrent ? "page" : undefined}
        aria-describedby=${stateId}
        tabindex=${tabIndex}
        onClick=${(event) => follow(event, place)}
        onKeyDown=${onKeyDown}
      >
        ${nameOf(session)}
      </a>
      <span class="entry-state" id=${stateId}>${age ? html`<time datetime=${at} title=${time(at)}>${age}</time>` : html`<i class="mark" /> ${t(`session-${state}`)}`}</span>
      <button class="plain square entry-more" aria-label=${t("more")} aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
        <${MoreIcon} />
      </button>
      <span class="entry-actions">
        <${Action} name=${t("rename")} icon=${PencilIcon} tabIndex=${tabIndex} run=${rename} />
        <${Action}
          name=${t(session.pinned ? "unpin" : "pin")}
          icon=${session.pinned ? PinOffIcon : PinIcon}
          tabIndex=${tabIndex}
          run=${pin}
        />
        <${Action} name=${t("delete")} icon=${TrashIcon} tabIndex=${tabIndex} run=${leave} />
      </span>
    </li>
  `;
}

// The session whose link gets the focus when it is drawn again, since the focus was on what stood for it.
let back = null;

function Action({ name, icon, tabIndex, run }) {
  return html`
    <button class="plain square" aria-label=${name} title=${name} tabindex=${tabIndex} onClick=${run}>
      <${icon} />
    </button>
  `;
}

function Renaming({ session }) {
  const input = useRef();
  const done = useRef(false);
  useLayoutEffect(() => {
    input.current.focus();
    if (written) input.current.setSelectionRange(written.caret, written.caret);
    else input.current.select();
    // What is drawn elsewhere from here on loses the focus by that, and ends nothing.
    return () => {
      done.current = true;
    };
  }, []);
  const end = (name, isByKey) => {
    if (done.current) return;
    done.current = true;
    if (isByKey) back = session.id;
    renaming.value = null;
    if (name && name !== session.name) changeSession(session, { name });
  };
  const onKeyDown = (event) => {
    if (isComposed(event) || !["Enter", "Escape"].includes(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    end(event.key === "Enter" ? event.target.value.trim() : null, true);
  };
  return html`
    <li class="entry" data-session=${session.id}>
      <input
        ref=${input}
        aria-label=${t("name")}
        dir="auto"
        maxlength=${NAME_LENGTH}
        defaultValue=${written?.text ?? session.name ?? ""}
        onInput=${({ target }) => {
          written = { text: target.value, caret: target.selectionStart };
        }}
        onKeyDown=${onKeyDown}
        onBlur=${({ target }) => end(target.value.trim(), false)}
      />
    </li>
  `;
}

function Leaving({ session }) {
  const button = useRef();
  useLayoutEffect(() => {
    button.current.focus();
    // Who waits for the end of it stands beside it then.
    const entry = button.current.closest("li");
    return () => document.activeElement === button.current && focusBeside(entry, entry.closest("nav"));
  }, []);
  const undo = () => {
    back = session.id;
    keepSession(session.id);
    status.value = "";
  };
  return html`
    <li class="entry leaving" data-session=${session.id}>
      <span class="fine" dir="auto">${t("deleted", { name: nameOf(session) })}</span>
      <button ref=${button} onClick=${undo}><${UndoIcon} />${t("undo")}</button>
    </li>
  `;
}
