// The input below a conversation.

import { patch, pathOf } from "../api.js";
import { complain } from "../announce.js";
import { html, useEffect, useId, useLayoutEffect, useRef, useState } from "../html.js";
import { PaperclipIcon } from "../icons.js";
import { keep, kept } from "../kept.js";
import { enterSends } from "../preferences.js";
import { doing } from "../session/open_session.js";
import { profiles } from "../session/profiles.js";
import { isComposed } from "../shell/keys.js";
import { t } from "../strings.js";
import { Attachments, attachedAt, madeAhead } from "./attachments.js";
import { commandIn, obey } from "./commands.js";
import { Offers, useCompletion } from "./completion.js";
import { DropZone } from "./drop_zone.js";
import { ProfileSelect } from "./profile_select.js";

const GROWS_BY_ITSELF = CSS.supports("field-sizing", "content");

/**
 * The input of a session, or, with `onBegin({content, files, profileId, sessionId})`, of one that begins with
 * it; `sessionId` is there where files went ahead of the first message.
 *
 * The input is emptied once the message was taken: `onBegin` gives whether it was.
 */
export function Composer({ session = null, isRunning = false, canStop = false, onBegin }) {
  const place = session?.id ?? "new";
  const [draft, change] = useDraft(`draft.${place}`);
  const [caret, setCaret] = useState(draft.length);
  const [newProfile, setNewProfile] = useState(() => kept("profile"));
  const [isBusy, setBusy] = useState(false);
  const input = useRef();
  const picker = useRef();
  const listId = useId();
  const at = session?.moment.value ?? null;
  const attachments = attachedAt(place);

  useEffect(() => {
    // Who has just deleted a session stands on its "Undo"; who renames or looks for one goes on writing; and
    // who closed the drawer while it loaded stays at its button.
    if (!document.activeElement?.closest(".leaving, .sidebar input, [aria-controls=sidebar]")) input.current.focus();
    // What went into a session that was talked in since is no file of a new one; asked again with the message.
    if (!session) madeAhead().catch(() => {});
  }, []);
  useGrowing(input, draft);
  useReturned(session, (message) => {
    change(draft.trim() ? `${message.content}\n\n${draft}` : message.content);
    attachments.put(message.files ?? []);
    input.current.focus();
  });

  const put = (text, to = text.length) => {
    change(text);
    setCaret(to);
    input.current.value = text;
    input.current.setSelectionRange(to, to);
    input.current.focus();
  };
  const chooseProfile = async (id) => {
    if (!profiles.value.has(id)) {
      complain(t("no-profile", { name: id }));
      return false;
    }
    if (session) return session.switchProfile(id);
    keep("profile", id);
    setNewProfile(id);
    return true;
  };
  /** Say something; gives whether it was taken. */
  const say = async (mode, content) => {
    const message = { content, files: attachments.names };
    let made = null;
    if (!session) {
      made = await madeAhead();
      if (!made && message.files.length) {
        attachments.forget();
        complain(t("files-gone"));
        return false;
      }
      const profileId = profiles.value.has(newProfile) ? newProfile : null;
      if (made && profileId && !(await doing(() => patch(pathOf(made), { profile_id: profileId })))) return false;
      if (!(await onBegin({ ...message, profileId, sessionId: made }))) return false;
      if (kept("made") === made) keep("made", null);
    } else if (at !== null) {
      if (!(await session.fork(at, message))) return false;
    } else session.outbox.send({ ...message, mode });
    attachments.forget(message.files);
    if (made) attachments.leaveTo(made);
    return true;
  };
  const written = useRef();
  written.current = draft;
  const submit = async (mode, text = draft) => {
    const content = text.trim();
    if (isBusy || !content) return;
    const command = commandIn(content);
    if (!command && attachments.isBusy) {
      complain(t("still-uploading"));
      return;
    }
    setBusy(true);
    try {
      const context = { session, isRunning, say, chooseProfile };
      const isTaken = await doing(() => (command ? obey(command, context) : say(mode, content)));
      // What was written while it was sent stays.
      if (isTaken && written.current === draft) change("");
    } finally {
      setBusy(false);
      input.current?.focus();
    }
  };
  const completion = useCompletion({
    ...{ session, isRunning, text: draft, caret },
    onChoose(offer) {
      if (offer.file) attachments.put([offer.file]);
      if (offer.runs) submit("queue", offer.text);
      else put(offer.text, offer.caret);
    },
  });
  const onKeyDown = (event) => {
    // Enter that ends the writing of a character by an input method sends nothing.
    if (isComposed(event) || completion.onKeyDown(event)) return;
    if (event.key === "Escape" && isRunning && at === null) session.stop();
    if (event.key !== "Enter" || event.shiftKey) return;
    const isSent = enterSends.value ? !event.altKey : event.ctrlKey || event.metaKey;
    if (!isSent && !event.altKey) return;
    event.preventDefault();
    if (isSent) {
      submit("queue");
      return;
    }
    const { selectionStart, selectionEnd } = event.target;
    put(`${draft.slice(0, selectionStart)}\n${draft.slice(selectionEnd)}`, selectionStart + 1);
  };
  const onPaste = (event) => {
    const { files: [...files], types } = event.clipboardData;
    // A picture of a text, which comes with it from a table for one, is not what was copied.
    const isText = types.includes("text/plain") && types.includes("text/html");
    if (!files.length || isText) return;
    event.preventDefault();
    attachments.add(files);
  };
  const isOpen = completion.offers.length > 0;
  return html`
    <form
      class="composer"
      onSubmit=${(event) => {
        event.preventDefault();
        submit("queue");
      }}
    >
      <${DropZone} onFiles=${(files) => attachments.add(files)} />
      <${Offers} id=${listId} completion=${completion} />
      ${at !== null && html`<p class="fine past">${t("goes-on-from-here")}</p>`}
      <${Attachments} attachments=${attachments} />
      <textarea
        ref=${input}
        rows="1"
        dir="auto"
        aria-label=${t("message")}
        aria-autocomplete="list"
        aria-controls=${isOpen ? listId : undefined}
        aria-activedescendant=${isOpen ? `${listId}-${completion.chosen}` : undefined}
        placeholder=${t("message-hint")}
        enterkeyhint="send"
        value=${draft}
        onInput=${({ target }) => {
          change(target.value);
          setCaret(target.selectionStart);
        }}
        onSelect=${({ target }) => setCaret(target.selectionStart)}
        onKeyDown=${onKeyDown}
        onPaste=${onPaste}
      ></textarea>
      <div class="tools">
        <input
          type="file"
          multiple
          hidden
          ref=${picker}
          onChange=${({ target }) => {
            attachments.add([...target.files]);
            target.value = "";
          }}
        />
        <button type="button" class="plain icon-only" aria-label=${t("attach")} title=${t("attach")} onClick=${() => picker.current.click()}>
          <${PaperclipIcon} />
        </button>
        <${ProfileSelect} chosen=${session ? session.row.value?.profile_id : profiles.value.has(newProfile) ? newProfile : null} onChoose=${chooseProfile} />
        <span class="space"></span>
        ${(isRunning || canStop) && at === null && html`<button type="button" title=${t("stop-by-key")} onClick=${() => session.stop()}>${t("stop")}</button>`}
        ${isRunning && at === null
          ? html`
              <button type="button" disabled=${isBusy} title=${t("steer-explained")} onClick=${() => submit("steer")}>${t("steer")}</button>
              <button class="primary" disabled=${isBusy} title=${t("queue-explained")}>${t("queue")}</button>
            `
          : html`<button class="primary" disabled=${isBusy}>${t("send")}</button>`}
      </div>
    </form>
  `;
}

/** A text that is kept on this device, the same in all tabs but the one that is written in. */
function useDraft(name) {
  const [draft, setDraft] = useState(() => kept(name, ""));
  useEffect(() => {
    const onStorage = (event) => {
      if (event.key === null || event.key.endsWith(name)) setDraft(kept(name, ""));
    };
    addEventListener("storage", onStorage);
    return () => removeEventListener("storage", onStorage);
  }, [name]);
  const change = (text) => {
    setDraft(text);
    keep(name, text || null);
  };
  return [draft, change];
}

/** Take back a message that navi refused. */
function useReturned(session, take) {
  const returned = session?.outbox.returned.value ?? null;
  useEffect(() => {
    if (!returned) return;
    session.outbox.returned.value = null;
    take(returned);
  }, [returned]);
}

function useGrowing(input, draft) {
  useLayoutEffect(() => {
    if (GROWS_BY_ITSELF) return;
    input.current.style.height = "auto";
    input.current.style.height = `${input.current.scrollHeight + 2}px`;
  }, [draft]);
}
