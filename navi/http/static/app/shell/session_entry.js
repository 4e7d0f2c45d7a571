// One session in the list: its name, what goes on in it, and what can be done with it.

import { status } from "../announce.js";
import { MoreIcon, PencilIcon, PinIcon, PinOffIcon, TrashIcon, UndoIcon } from "../icons.js";
import { html, memo, signal, useLayoutEffect, useRef, useState } from "../html.js";
import { addressOf, follow, go, route } from "../router.js";
import { isUnread, watched } from "../session/seen.js";
import { changeSession, deleteSession, keepSession, leaving, waits } from "../session/session_list.js";
import { ago, t, time } from "../strings.js";
import { nameOf } from "./session_groups.js";

const NAME_LENGTH = 200; // characters, at most
const minute = signal(0); // raised as time goes by, for what says how long ago something was
setInterval(() => minute.value++, 30_000);

/** The session whose name is being changed, or null. */
export const renaming = signal(null);

/** "waiting", "running", "unread" or "quiet". */
export function stateOf(session) {
  if (waits(session)) return "waiting";
  if (session.status === "running") return "running";
  return watched.value !== session.id && isUnread(session) ? "unread" : "quiet";
}

/**
 * An item of the list.
 *
 * `isStop`: whether Tab comes to it; arrows go on from there, so that hundreds of sessions are one stop.
 */
export const SessionEntry = memo(function SessionEntry({ session, isStop }) {
  if (leaving.value.has(session.id)) return html`<${Leaving} session=${session} />`;
  if (renaming.value === session.id) return html`<${Renaming} session=${session} />`;
  return html`<${Entry} session=${session} isStop=${isStop} />`;
});

function Entry({ session, isStop }) {
  const [isOpen, setOpen] = useState(false);
  const link = useRef();
  const place = { sessionId: session.id };
  const state = stateOf(session);
  const stateId = `state-${session.id}`;
  const tabIndex = isStop ? 0 : -1;
  useLayoutEffect(() => {
    if (back === session.id) {
      back = null;
      link.current.focus();
    }
  }, []);
  const rename = () => {
    renaming.value = session.id;
  };
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
        aria-current=${route.value.sessionId === session.id ? "page" : undefined}
        aria-describedby=${stateId}
        tabindex=${tabIndex}
        onClick=${(event) => follow(event, place)}
        onKeyDown=${onKeyDown}
      >
        ${nameOf(session)}
      </a>
      <span class="entry-state" id=${stateId}><${State} session=${session} state=${state} /></span>
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

function State({ session, state }) {
  if (state !== "quiet") return html`<i class="mark" /> ${t(`session-${state}`)}`;
  void minute.value;
  const at = session.last_active ?? session.created_at;
  return html`<time datetime=${at} title=${time(at)}>${ago(at)}</time>`;
}

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
    input.current.select();
  }, []);
  const end = (name, isByKey) => {
    if (done.current) return;
    done.current = true;
    if (isByKey) back = session.id;
    renaming.value = null;
    if (name && name !== session.name) changeSession(session, { name });
  };
  const onKeyDown = (event) => {
    if (event.isComposing || !["Enter", "Escape"].includes(event.key)) return;
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
        defaultValue=${session.name ?? ""}
        onKeyDown=${onKeyDown}
        onBlur=${({ target }) => end(target.value.trim(), false)}
      />
    </li>
  `;
}

function Leaving({ session }) {
  const button = useRef();
  useLayoutEffect(() => button.current.focus(), []);
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
