// What becomes of a session in the page where navi answers late, or not at first: `node page_session.mjs CASE`
// prints as JSON what the case comes to.
import { answerBy, asked, begin, refusal, sockets, until } from "./page_world.mjs";

const APP = new URL("../../navi/http/static/app/", import.meta.url);
const load = (name) => import(new URL(name, APP));
const ID = "01990000-0000-7000-8000-000000000001";
const PROFILES = { profiles: [{ id: "tea", name: "Tea Master" }], compression: { enabled: false, threshold: null } };
const FIRST = 200; // facts that a session opens with

const row = (more = {}) => ({ id: ID, name: "Tea", profile_id: "tea", owner: "local", seq: 2, waiting: [], status: "idle", ...more });
const event = (seq, type, data = {}, turn_id = "t") => ({ seq, type, data, turn_id, subagent_id: null, at: new Date(1e12 + seq).toISOString() });

/** The facts of a session with one turn in it. */
function longTurn(count) {
  const rest = Array.from({ length: count - 2 }, (_, index) => event(index + 3, "todo_updated", { items: [] }));
  return [event(1, "session_created", { profile_id: "tea" }, null), event(2, "turn_started"), ...rest];
}

/** Navi with some facts in a session; `before(method, path, body, signal)` answers first where it gives something. */
function naviWith(facts, before = () => undefined) {
  answerBy(async (method, path, body, signal) => {
    const own = await before(method, path, body, signal);
    if (own !== undefined) return own;
    const { pathname, searchParams } = new URL(path, "http://navi.test");
    if (pathname === "/profiles") return PROFILES;
    if (pathname === "/auth/me") return { id: "local", name: "local", role: "admin", auth_kind: "none" };
    if (/^\/sessions\/[^/]+$/.test(pathname)) return row();
    if (pathname === "/sessions") return { sessions: [], next: null };
    if (pathname === `/sessions/${ID}/fork`) return row({ id: "fork" });
    if (pathname.endsWith("/events")) {
      const found = facts.filter(({ seq }) => seq < Number(searchParams.get("before") ?? Infinity));
      return { seq: facts.at(-1).seq, events: found.slice(-Number(searchParams.get("limit") ?? facts.length)) };
    }
    return undefined;
  });
}

async function opened(address = `/s/${ID}`) {
  begin(address);
  const { current } = await load("session/open_session.js");
  return { current, session: current.value };
}

/** A promise, and what settles it. */
const held = () => Promise.withResolvers();

const CASES = {
  async names_before_answers() {
    const late = held();
    naviWith(longTurn(5), (_, path) => (path === "/profiles" ? late.promise : undefined));
    const { session } = await opened();
    const { profileName } = await load("session/profiles.js");
    const names = [];
    session.state.subscribe((state) => state === "here" && names.push(profileName("tea")));
    await until(() => sockets.length); // the names are not waited for before its events are asked for
    await new Promise((drawn) => setTimeout(drawn, 50)); // whatever does not wait for them is done by then
    late.resolve(PROFILES);
    await until(() => names.length);
    return { names };
  },

  async opens_without_names() {
    naviWith(longTurn(5), (_, path) => (path === "/profiles" ? held().promise : undefined));
    const { session } = await opened();
    const { profileName } = await load("session/profiles.js");
    await until(() => session.state.value === "here");
    return { name: profileName("tea") };
  },

  async leaves_before_it_opens() {
    const late = held();
    naviWith(longTurn(5), (_, path) => (path === `/sessions/${ID}` ? late.promise : undefined));
    const { current } = await opened();
    const { go } = await load("router.js");
    await until(() => asked.some(([, path]) => path === `/sessions/${ID}`));
    go({ sessionId: "other" });
    late.resolve(row());
    await until(() => current.value.state.value === "here");
    return { read: asked.flatMap(([, path]) => /^\/sessions\/([^/]+)\/events/.exec(path)?.[1] ?? []) };
  },

  async asks_again_who_and_what_there_is() {
    const refused = new Set();
    naviWith(longTurn(5), (_, path) => {
      if (!["/profiles", "/auth/me"].includes(path) || refused.has(path)) return undefined;
      refused.add(path);
      return refusal(503);
    });
    const { session } = await opened();
    const { profileName } = await load("session/profiles.js");
    const { me } = await load("session/me.js");
    await until(() => session.state.value === "here");
    await until(() => me.value !== null && profileName("tea") !== "tea");
    return { refused: [...refused].sort(), who: me.value.id, name: profileName("tea") };
  },

  async opens_again() {
    let refusals = 1;
    const facts = longTurn(FIRST + 100);
    naviWith(facts, (_, path) => (path.includes(`limit=2000`) && refusals-- > 0 ? refusal(503) : undefined));
    const { session } = await opened();
    await until(() => session.state.value === "here");
    return { count: facts.length, seqs: session.log.facts.map(({ seq }) => seq) };
  },

  async deltas_of_the_moment() {
    const calls = [2, 12].flatMap((seq) => {
      const data = { call_id: `c${seq}`, purpose: "turn", model: "m", iteration: 1 };
      return [event(seq, "model_called", data), event(seq + 9, "model_replied", { ...data, content: "whole", tool_calls: [] })];
    });
    const first = held();
    naviWith([event(1, "turn_started"), ...calls], (_, path) => {
      const { searchParams } = new URL(path, "http://navi.test");
      if (searchParams.get("kind") !== "delta") return undefined;
      const after = Number(searchParams.get("after"));
      const answer = { seq: 21, events: [event(after + 1, "text_delta", { call_id: `c${after}`, text: `part of ${after}` })] };
      return after === 2 ? first.promise.then(() => answer) : answer;
    });
    const { session } = await opened();
    await until(() => session.state.value === "here");
    session.lookAt(5);
    session.lookAt(15);
    const textThen = () => session.conversation.value.turns[0].items.at(-1).text;
    await until(() => textThen() === "part of 12");
    first.resolve();
    await new Promise((drawn) => setTimeout(drawn, 50));
    return { text: textThen() };
  },

  async output_of_the_moment() {
    const tool = (seq, type, call_id, more = {}) => event(seq, type, { call_id, name: "run_shell", arguments: {}, ...more });
    const deltas = [event(4, "tool_output_delta", { call_id: "a", text: "done" }), event(5, "tool_output_delta", { call_id: "b", text: "half" })];
    naviWith([
      ...[event(1, "turn_started"), tool(2, "tool_started", "a"), tool(3, "tool_started", "b")],
      ...[tool(6, "tool_finished", "a", { outcome: "ok", output: "done" }), event(8, "todo_updated", { items: [] })],
      tool(9, "tool_finished", "b", { outcome: "ok", output: "halfway" }),
    ], (_, path) => (path.includes("kind=delta") ? { seq: 9, events: [...deltas, event(7, "model_waiting", { place: 2, reason: "slot" })] } : undefined));
    const { session } = await opened();
    await until(() => session.state.value === "here");
    session.lookAt(8);
    const outputs = () => session.conversation.value.turns[0].items.filter(({ kind }) => kind === "tool").map(({ output }) => output);
    await until(() => outputs()[1] === "half");
    return { outputs: outputs(), doing: session.conversation.value.turns[0].now?.what ?? null };
  },

  async deltas_of_a_subagent() {
    const own = (fact) => ({ ...fact, subagent_id: "sub" });
    const called = (seq, call_id) => own(event(seq, "model_called", { call_id, purpose: "turn", model: "m", iteration: 1 }));
    const replied = (seq, call_id) => own(event(seq, "model_replied", { call_id, content: "Tea", tool_calls: [] }));
    const stopped = [];
    naviWith([
      ...[event(1, "turn_started"), event(2, "tool_started", { call_id: "s", name: "delegate", arguments: {} })],
      ...[own(event(3, "subagent_started", { call_id: "s", profile_id: "tea", task: "Brew" })), called(4, "c4"), replied(20, "c4")],
      ...[called(21, "c21"), replied(40, "c21"), called(41, "c41")],
    ], (_, path, __, signal) => {
      if (!path.includes("kind=delta")) return undefined;
      signal.addEventListener("abort", () => stopped.push(new URL(path, "http://navi.test").searchParams.get("after")));
      return held().promise;
    });
    const { session } = await opened();
    await until(() => session.state.value === "here" && sockets.length);
    for (const seq of [3, 10, 12, 30]) session.lookAt(seq);
    await until(() => stopped.length);
    const after = (address) => new URL(address, "http://navi.test").searchParams.get("after");
    return { live: after(sockets.at(-1).address), asked: asked.flatMap(([, path]) => (path.includes("kind=delta") ? [after(path)] : [])), stopped };
  },

  async moments_that_are_not_there_yet() {
    naviWith(longTurn(5));
    const { session } = await opened();
    await until(() => session.state.value === "here");
    const found = {};
    for (const at of [7, 8]) {
      session.lookAt(at);
      sockets.at(-1).take({ type: "ready", seq: 7 });
      found[at] = session.moment.value;
    }
    return found;
  },

  async refused_after_it_was_left() {
    const late = held();
    let isLate = true;
    naviWith(longTurn(5), (method, path) => {
      if (method !== "POST" || !path.includes("/messages")) return undefined;
      return isLate ? late.promise : refusal(413);
    });
    const { current, session } = await opened();
    const { go } = await load("router.js");
    const { keptNames } = await load("kept.js");
    const { trouble } = await load("announce.js");
    await until(() => session.state.value === "here");
    session.outbox.send({ content: "Too much." });
    await until(() => asked.some(([method]) => method === "POST"));
    go({ sessionId: "other" });
    late.resolve(refusal(413));
    isLate = false;
    await until(() => current.value.state.value === "here");
    const meanwhile = { kept: keptNames(`outbox.${ID}`).length, told: trouble.value };
    go({ sessionId: ID });
    await until(() => current.value.outbox.returned.value !== null);
    return { ...meanwhile, returned: current.value.outbox.returned.value.content, left: keptNames(`outbox.${ID}`).length };
  },

  async changes_that_fail() {
    const tea = row({ id: "tea", name: "Tea", pinned: false, seq: 2 });
    const other = row({ id: "other", name: "Other", pinned: false, seq: 2 });
    const answers = [];
    naviWith(longTurn(5), (method, path) => {
      if (path.startsWith("/sessions?")) return { sessions: [tea, other], next: null };
      if (method !== "PATCH") return undefined;
      const answer = held();
      answers.push(answer);
      return answer.promise;
    });
    begin();
    const { sessions, changeSession } = await load("session/session_list.js");
    await until(() => sessions.value !== null);
    const shown = () => Object.fromEntries(sessions.value.map(({ id, name, pinned }) => [id, [name, pinned]]));
    const of = (id) => sessions.value.find((one) => one.id === id);
    const found = [];
    // Of two sessions, then both of one.
    for (const second of ["other", "tea"]) {
      const done = [changeSession(of("tea"), { name: "Green tea" }), changeSession(of(second), { pinned: true })];
      found.push(shown());
      for (const [count] of done.entries()) {
        await until(() => answers.length > count);
        answers[count].resolve(refusal(409));
      }
      answers.length = 0;
      await Promise.all(done);
      await until(() => shown().tea[0] === "Tea" && !shown()[second][1]);
      found.push(shown());
    }
    return { found };
  },

  async a_long_list() {
    let rows = Array.from({ length: 1200 }, (_, at) => row({ id: `s${at}`, name: `Tea ${at}`, pinned: false, last_active: new Date(1e12 - at * 1000).toISOString() }));
    const limits = [];
    naviWith(longTurn(5), (method, path) => {
      const { pathname, searchParams } = new URL(path, "http://navi.test");
      const one = rows.find(({ id }) => pathname === `/sessions/${id}`);
      if (one || pathname === "/sessions/s7") return one ?? refusal(404);
      if (pathname !== "/sessions") return undefined;
      const limit = Number(searchParams.get("limit"));
      limits.push(limit);
      const from = rows.findIndex(({ id }) => id === searchParams.get("after")) + 1;
      const page = rows.slice(from, from + limit);
      return { sessions: page, next: from + limit < rows.length ? page.at(-1).id : null };
    });
    begin();
    const { sessions, readSessions, readFurther } = await load("session/session_list.js");
    const ids = () => sessions.value.map(({ id }) => id);
    await until(() => sessions.value?.length === 600);
    readFurther(true);
    await until(() => sessions.value.length === 1200);
    const isWhole = ids().every((id, at) => id === `s${at}`);
    for (let reading = 0; reading < 21; reading++) await readSessions();
    // Elsewhere one is deleted, and one of further down is spoken to, which puts it on top.
    const spoken = { ...rows[900], seq: 3, last_active: new Date(1e12 + 1000).toISOString() };
    rows = [spoken, ...rows.filter(({ id }) => id !== "s7" && id !== "s900")];
    await readSessions();
    await until(() => sessions.value.length === 1199);
    return { isWhole, limits: limits.filter((limit) => limit !== 100), most: Math.max(...limits), isStill: ids().join() === rows.map(({ id }) => id).join() };
  },

  async the_newest_row_stays() {
    const early = held();
    let reads = 0;
    naviWith(longTurn(5), (method, path) => {
      if (method !== "GET" || path !== `/sessions/${ID}`) return undefined;
      reads += 1;
      if (reads === 2) return early.promise;
      if (reads === 4) return refusal(503);
      return row({ name: ["first", "", "third", "", "fifth"][reads - 1], seq: reads + 10 });
    });
    const { session } = await opened();
    await until(() => session.state.value === "here");
    const socket = sockets.at(-1);
    socket.take(event(20, "session_renamed", { name: "x" }));
    await until(() => reads === 2);
    socket.take(event(21, "session_renamed", { name: "y" }));
    await until(() => session.row.value.name === "third");
    early.resolve(row({ name: "second", seq: 12 }));
    await new Promise((drawn) => setTimeout(drawn, 50));
    const kept = session.row.value.name;
    socket.take(event(22, "turn_completed", {}));
    await until(() => session.row.value.name === "fifth");
    return { kept };
  },

  async says_from_a_moment() {
    const said = [];
    let refusals = 1;
    naviWith(longTurn(5), (method, path, body) => {
      if (method !== "POST" || !path.includes("/messages")) return undefined;
      if (refusals-- > 0) return refusal(503);
      said.push([path.split("/")[2], body.content]);
      return { message_id: body.message_id, seq: 9 };
    });
    const { session } = await opened();
    await until(() => session.state.value === "here");
    await session.fork(3, { content: "Otherwise.", files: [] });
    await until(() => said.length);
    return { said };
  },

  async forks_where_it_was_clicked() {
    const said = (seq, mode = "queue") => event(seq, "user_message_received", { message_id: `m${seq}`, content: "Tea", files: [], mode }, null);
    const taken = (seq, message_seq, turn) => event(seq, "message_delivered", { message_seq }, turn);
    const called = (seq, turn) => event(seq, "model_called", { call_id: `c${seq}`, purpose: "turn", model: "m", iteration: 1 }, turn);
    const replied = (seq, call, turn, tools = []) =>
      event(seq, "model_replied", { call_id: `c${call}`, content: "Tea", tool_calls: tools.map((id) => ({ id, name: "todo", arguments: {} })) }, turn);
    const tool = (seq, call_id, type = "tool_started") => event(seq, type, { call_id, name: "todo", arguments: {}, outcome: "ok", output: "" }, "t2");
    naviWith([
      ...[event(1, "session_created", { profile_id: "tea" }, null), said(2), event(3, "turn_started", {}, "t1"), taken(4, 2, "t1"), called(5, "t1")],
      ...[said(6), replied(7, 5, "t1"), event(8, "turn_completed", {}, "t1"), event(9, "model_called", { call_id: "name", purpose: "naming" }, null)],
      ...[event(10, "model_replied", { call_id: "name", content: "Tea" }, null), event(11, "turn_started", {}, "t2"), taken(12, 6, "t2"), called(13, "t2")],
      ...[replied(14, 13, "t2", ["x", "y"]), tool(15, "x"), tool(16, "y"), said(17, "steer"), tool(18, "x", "tool_finished")],
      ...[tool(19, "y", "tool_finished"), taken(20, 17, "t2"), called(21, "t2"), replied(22, 21, "t2"), event(23, "turn_completed", {}, "t2")],
    ], (method, path, { at } = {}) => {
      if (method === "POST" && path.endsWith("/fork")) forks.push(at);
      return path.includes("/messages") ? { seq: 9 } : undefined;
    });
    const forks = [];
    const { session } = await opened();
    await until(() => session.state.value === "here");
    const items = session.conversation.value.turns.flatMap((turn) => turn.items);
    const [first, queued, steered] = items.filter(({ kind }) => kind === "user");
    for (const answer of items.filter(({ kind }) => kind === "answer")) await session.fork(answer);
    const after = forks.splice(0);
    for (const message of [first, queued, steered]) await session.fork(message);
    const before = forks.splice(0);
    for (const message of [first, queued, steered]) await session.sayAgain(message, "Again.");
    return { after, before, again: forks };
  },

  async attaches_to_the_past() {
    const [said, put] = [[], []];
    naviWith(longTurn(5), (method, path, body) => {
      if (method === "GET" && path === "/sessions/fork/files") return { files: [{ name: "plan.md" }] };
      if (path === `/sessions/${ID}/files/tea.md`) return "leaves";
      if (path === "/sessions/fork/files") {
        put.push(body.get("file"));
        return { files: [{ name: "tea (1).md" }] };
      }
      if (!path.includes("/messages")) return undefined;
      said.push([path.split("/")[2], body.files]);
      return { message_id: body.message_id, seq: 9 };
    });
    const { session } = await opened();
    await until(() => session.state.value === "here");
    const isTaken = await session.fork(3, { content: "Read it.", files: ["plan.md", "tea.md"] });
    const bytes = await Promise.all(put.map(async (file) => [file.name, JSON.parse(await file.text())]));
    return { isTaken, said, bytes, forks: asked.filter(([method, path]) => method === "POST" && path.endsWith("/fork")).length };
  },

  async is_refused_in_a_new_session() {
    naviWith(longTurn(5), (method, path) => {
      if (method === "DELETE") return {};
      return path.includes("/messages") ? refusal(413) : undefined;
    });
    const { session } = await opened();
    await until(() => session.state.value === "here");
    const { kept, keptNames } = await load("kept.js");
    const isTaken = await session.fork(3, { content: "Too much.", files: [] });
    const deleted = () => asked.flatMap(([method, path]) => (method === "DELETE" ? [path] : []));
    const { route } = await load("router.js");
    return { isTaken, deleted: deleted(), at: route.value.sessionId === ID, sent: keptNames("outbox.").map((name) => kept(name)) };
  },

  async forks_once() {
    const late = held();
    naviWith(longTurn(5), (method, path) => (path.endsWith("/fork") ? late.promise : undefined));
    const { session } = await opened();
    await until(() => session.state.value === "here");
    const done = [session.sayAgain({ seq: 2, files: [] }, "Again."), session.sayAgain({ seq: 2, files: [] }, "Again."), session.fork(4)];
    late.resolve(row({ id: "fork" }));
    return { done: await Promise.all(done), forks: asked.filter(([, path]) => path === `/sessions/${ID}/fork`).length };
  },

  async goes_on_once() {
    const FAILED = [event(1, "turn_started"), event(2, "turn_failed", { kind: "http", error: "away" })];
    const late = held();
    naviWith(FAILED, (_, path) => (path.includes("/messages") ? late.promise : undefined));
    const { session } = await opened();
    await until(() => session.state.value === "here");
    const { canGoOn } = await load("chat/turn_end.js");
    const { me } = await load("session/me.js");
    await until(() => me.value !== null);
    const can = [canGoOn(session, false), canGoOn(session, true)];
    session.outbox.send({ content: "Again." });
    can.push(canGoOn(session, true));
    const [{ message_id }] = session.outbox.messages.value;
    sockets.at(-1).take(event(3, "user_message_received", { message_id, content: "Again." }, null));
    await until(() => session.outbox.messages.value.length === 0 && session.conversation.value.waiting.length);
    can.push(canGoOn(session, true)); // no turn has it yet
    return { can };
  },

  async somebody_elses_session() {
    const FAILED = [event(1, "turn_started"), event(2, "turn_failed", { kind: "http", error: "away" })];
    let owner = "nobody";
    naviWith(FAILED, (_, path) => (path === `/sessions/${ID}` ? row({ owner, waiting: ["c"] }) : undefined));
    const { current } = await opened();
    const { sessions } = await load("session/session_list.js");
    const { me } = await load("session/me.js");
    const { canGoOn } = await load("chat/turn_end.js");
    const { reopen } = await load("session/open_session.js");
    await until(() => me.value !== null && sessions.value !== null);
    const found = {};
    for (owner of ["bob", "local"]) {
      reopen();
      await until(() => current.value.state.value === "here");
      found[owner] = { goesOn: canGoOn(current.value, true), listed: sessions.value.map(({ id }) => id === ID) };
    }
    return found;
  },

  async a_password_that_is_wrong() {
    begin();
    answerBy((_, path) => (path.startsWith("/auth") ? refusal(401) : undefined));
    const { get, post, signedOut } = await load("api.js");
    await post("/auth/password", {}, { hasPassword: true }).catch(() => {});
    const before = signedOut.value;
    await get("/auth/me").catch(() => {});
    return { isOut: [before, signedOut.value] };
  },

  async somebody_signs_in() {
    const found = {};
    begin();
    const person = { id: "ada", name: "Ada", role: "user", auth_kind: "login" };
    naviWith(longTurn(5), (_, path) => (path === "/auth/me" ? { ...person } : undefined));
    const { keep, kept } = await load("kept.js");
    const { me, signedIn } = await load("session/me.js");
    const { signedOut } = await load("api.js");
    await until(() => me.value !== null);
    keep("draft.new", "half a thou");
    keep("theme", "dark");
    for (const id of ["ada", "bob"]) {
      signedOut.value = true;
      person.id = id;
      signedIn();
      await until(() => (id === "ada" ? !signedOut.value : location.reloads));
      keep("seen", id); // the page still has in memory what it is about
      found[id] = { out: signedOut.value, who: me.value.id, draft: kept("draft.new"), seen: kept("seen"), theme: kept("theme") };
    }
    return found;
  },

  async departs_before_it_signs_out() {
    const late = held();
    naviWith(longTurn(5), (method, path) => {
      if (method === "DELETE") return late.promise;
      return path === "/auth/logout" ? {} : undefined;
    });
    begin();
    const { signOut } = await load("session/sign_out.js");
    const { deleteSession } = await load("session/session_list.js");
    deleteSession(ID);
    signOut();
    await until(() => asked.some(([method]) => method === "DELETE"));
    await new Promise((sent) => setTimeout(sent, 50)); // whatever does not wait for it is sent by then
    late.resolve({});
    await until(() => location.reloads);
    return { asked: asked.filter(([method]) => method !== "GET") };
  },

  async says_all_before_it_signs_out() {
    const taken = [];
    let isAway = true;
    naviWith(longTurn(5), (method, path, body) => {
      if (path === "/auth/logout") return {};
      if (method !== "POST" || !path.includes("/messages")) return undefined;
      if (isAway) return refusal(503);
      taken.push(`${path.split("/")[2]}: ${body.content}`);
      return { seq: 9 };
    });
    begin();
    const { keep } = await load("kept.js");
    const { signOut } = await load("session/sign_out.js");
    const { trouble } = await load("announce.js");
    keep("outbox.b.2", { message_id: "2", content: "two", files: [], mode: "queue", at: 2 });
    keep("outbox.a.1", { message_id: "1", content: "one", files: [], mode: "queue", at: 1 });
    await signOut();
    const first = { told: trouble.value?.text ?? null, actions: trouble.value?.actions.map(({ name }) => name), reloads: location.reloads };
    const loses = trouble.value?.actions[0].run;
    isAway = false;
    await signOut();
    const second = { taken: [...taken], reloads: location.reloads };
    isAway = true;
    await loses?.();
    return { first, second, third: { taken: taken.length, reloads: location.reloads } };
  },

  async signs_out_although_some_cannot_be_sent() {
    const taken = [];
    naviWith(longTurn(5), (method, path, body) => {
      if (path === "/auth/logout") return {};
      if (method !== "POST" || !path.includes("/messages")) return undefined;
      const session = path.split("/")[2];
      if (session === "deleted") return refusal(404);
      if (body.content === "too long") return refusal(413);
      taken.push(`${session}: ${body.content}`);
      return { seq: 9 };
    });
    begin();
    const { keep, kept } = await load("kept.js");
    const { Outbox } = await load("session/outbox.js");
    const said = [["deleted", "gone"], ["a", "too long"], ["a", "behind it"], ["b", "well"]];
    said.forEach(([session, content], at) => keep(`outbox.${session}.${at}`, { message_id: `${at}`, content, files: [], mode: "queue", at }));
    const problem = await Outbox.sendAll();
    return { taken, status: problem?.status ?? null, keptOfDeleted: kept("outbox.deleted.0") ?? null };
  },

  async upload_without_progress() {
    const { mock } = await import("node:test");
    begin();
    mock.timers.enable({ apis: ["setTimeout"] });
    let request;
    globalThis.XMLHttpRequest = class {
      upload = {};
      isAborted = false;
      constructor() {
        request = this;
      }
      open() {}
      send() {}
      abort() {
        this.isAborted = true;
        this.onabort();
        this.onloadend?.();
      }
    };
    const { send } = await load("chat/upload.js");
    const began = send(ID, new File(["leaves"], "tea.md"), () => {});
    const why = began.name.catch((error) => error.message);
    const aborted = [];
    for (const isProgress of [true, true, false]) {
      mock.timers.tick(50_000);
      aborted.push(request.isAborted);
      if (isProgress) request.upload.onprogress({ lengthComputable: true, loaded: 1, total: 6 });
    }
    mock.timers.tick(10_000);
    return { aborted: [...aborted, request.isAborted], why: request.isAborted ? await why : null };
  },

  async arguments_that_are_edited() {
    begin();
    const { argumentsOf, isExact } = await load("chat/approval.js");
    const texts = ['{"id": 9007199254740991}', '{"ids": [{"id": 9007199254740993}]}', '{"id": -9007199254740993}', '{"part": 0.5, "no": null}', "[1]"];
    return texts.map((text) => [isExact(JSON.parse(text)), argumentsOf(text).problem ?? null]);
  },

  async files_ahead_of_a_message() {
    begin();
    const { keep, kept } = await load("kept.js");
    const { attachedAt, madeAhead } = await load("chat/attachments.js");
    const after = {};
    const answers = { nothing_said: { messages: [] }, said: { messages: [{}] }, deleted: refusal(404), away: refusal(503) };
    for (const [name, answer] of Object.entries(answers)) {
      answerBy((_, path) => (path.startsWith("/sessions/ahead/messages") ? answer : undefined));
      keep("made", "ahead");
      attachedAt("new").put(["a.txt"]);
      const made = await madeAhead().catch((error) => error.status);
      after[name] = { made, kept: kept("made"), names: attachedAt("new").names };
      attachedAt("new").forget();
    }
    return after;
  },

  async files_that_were_refused() {
    begin();
    const { attachedAt } = await load("chat/attachments.js");
    const { kept, keep } = await load("kept.js");
    answerBy((method, path) => (method === "POST" && path === "/sessions" ? refusal(503) : undefined));
    const attached = attachedAt("new");
    attached.add([new File(["a"], "a.txt"), new File(["b"], "b.txt")]);
    await until(() => attached.files.value.every(({ state }) => state === "refused"));
    const files = attached.files.value.map(({ name }) => name);
    const { madeAhead } = await load("chat/attachments.js");
    const late = held();
    answerBy((_, path) => (path.startsWith("/sessions/ahead/messages") ? late.promise : undefined));
    keep("made", "ahead");
    const asking = madeAhead();
    keep("made", "newer");
    late.resolve({ messages: [{}] });
    await asking;
    return { files, made: kept("made"), left: attached.files.value.length };
  },

  async files_of_another_tab() {
    begin();
    const { keep, kept } = await load("kept.js");
    const { attachedAt } = await load("chat/attachments.js");
    const attached = attachedAt("tea");
    attached.put(["a.txt"]);
    const names = [];
    for (const there of [["a.txt", "b.txt"], null]) {
      keep("files.tea", there);
      dispatchEvent(Object.assign(new Event("storage"), { key: "navi.files.tea" }));
      names.push(attached.names);
    }
    return { names, isKept: kept("files.tea") };
  },

  async links_to_files() {
    begin();
    const { linkOf, pictureOf } = await load("markdown/addresses.js");
    const session = { id: ID, hasUpload: (name) => name === "plan.md" };
    const addresses = ["report.md", "./report.md", "plan.md", "uploads/data 1.csv", "../x.md", "uploads/../x.md"];
    const links = Object.fromEntries(addresses.map((address) => [address, linkOf(address, "it", session)?.href ?? null]));
    return { links, picture: pictureOf("plot.png", session).href, outside: linkOf("report.md", "it") };
  },

  async hosts_beside_links() {
    begin();
    const { honest, linkOf } = await load("markdown/addresses.js");
    const unseen = ["\u034f", "\u115f", "\u200d", "\u202e", "\u3164", "\ufe0f", "\ufffb", "\u{e0041}", "\u{e0100}"];
    return {
      hosts: Object.fromEntries(unseen.map((each) => [each, linkOf("https://evil.example/", `bank.ex${each}ample`).host])),
      honest: honest(`A${unseen.join("")}`),
    };
  },

  async knows_its_uploads() {
    const said = event(3, "user_message_received", { message_id: "m", content: "Look", files: ["plan.md"], mode: "queue" });
    const given = event(5, "file_uploaded", { name: "tea.md", size: 3, media_type: "text/markdown" });
    naviWith([...longTurn(2), said, event(4, "message_delivered", { message_seq: 3 }), given]);
    const { session } = await opened();
    await until(() => session.state.value === "here");
    return { has: ["plan.md", "tea.md", "report.md"].map((name) => session.hasUpload(name)) };
  },

  async words_that_are_erased() {
    const said = (seq, content) => event(seq, "user_message_received", { message_id: `m${seq}`, content, files: [], mode: "queue" }, null);
    const facts = [...longTurn(5), said(6, "I like sencha"), said(7, "Hello"), said(8, "Sencha it is")];
    let refusals = 1;
    let isErased = false;
    naviWith(facts, (_, path) => (isErased && path.includes("/events") && refusals-- > 0 ? refusal(503) : undefined));
    const { session } = await opened();
    await until(() => session.state.value === "here");
    const words = () => session.conversation.value.waiting.map(({ content }) => content);
    await until(() => words().length === 3);
    const found = [words()];
    for (const seqs of [[6], undefined]) {
      facts.push(event(facts.length + 1, "content_erased", { session_id: ID, events: 1, why: seqs ? "memory" : "session", seqs }, null));
      for (const seq of seqs ?? [6, 7, 8]) facts[seq - 1] = said(seq, "[erased]");
      isErased = true;
      sockets.at(-1).take(facts.at(-1));
      await until(() => words()[seqs ? 0 : 2] === "[erased]");
      found.push(words());
    }
    return { found, seqs: session.log.facts.map(({ seq }) => seq) };
  },

  async text_that_is_erased() {
    const data = { call_id: "c", purpose: "turn", model: "m", iteration: 1 };
    const facts = [event(1, "turn_started"), event(2, "model_called", data)];
    naviWith(facts, (_, path) => {
      const { searchParams } = new URL(path, "http://navi.test");
      return searchParams.get("kind") === "delta" ? { seq: 4, events: [event(3, "text_delta", facts.length > 2 ? { call_id: "c" } : { call_id: "c", text: "sencha" })] } : undefined;
    });
    const { session } = await opened();
    await until(() => session.state.value === "here");
    sockets.at(-1).take(event(3, "text_delta", { call_id: "c", text: "sencha" }));
    sockets.at(-1).take(event(4, "todo_updated", { items: [] }));
    const text = () => session.conversation.value.turns[0].items.at(-1).text;
    session.lookAt(3);
    await until(() => text() === "sencha");
    facts.push(event(4, "todo_updated", { items: [] }), event(5, "content_erased", { session_id: ID, events: 2, why: "memory", seqs: [2, 3] }, null));
    sockets.at(-1).take(facts.at(-1));
    await until(() => !session.log.deltas.length && text() === "");
    session.lookAt(null);
    await until(() => session.moment.value === null);
    return { now: session.conversation.value.turns[0].items.find(({ kind }) => kind === "answer").text };
  },

  async what_went_wrong() {
    begin();
    const { get } = await load("api.js");
    answerBy((_, path) => ({ "/proxy": refusal(502, "<html>"), "/odd": refusal(500, "null"), "/navi": refusal(404, '{"detail": "there is no such tea"}') })[path]);
    const words = {};
    for (const path of ["/proxy", "/odd", "/navi", "/nobody"]) words[path] = await get(path).catch((error) => error.message);
    return words;
  },

  async times_and_numbers() {
    const found = {};
    for (const languages of [["en-GB"], ["en-US"], ["de-AT", "en"], ["fr", "en-GB"], ["en-US@posix"], ["en-x", "en-GB"]]) {
      begin("/", languages);
      const strings = await load("strings.js");
      await strings.speakAsChosen();
      found[languages[0]] = strings.time("2026-11-03T14:03:21Z");
    }
    return found;
  },

  async compresses_meanwhile() {
    const late = held();
    naviWith(longTurn(5), (_, path) => (path.endsWith("/compress") ? late.promise : undefined));
    const { session } = await opened();
    await until(() => session.state.value === "here");
    const { commandIn, obey } = await load("chat/commands.js");
    const { trouble } = await load("announce.js");
    let isTaken;
    obey(commandIn("/compress"), { session }).then((done) => (isTaken = done));
    await until(() => isTaken !== undefined && asked.some(([, path]) => path.endsWith("/compress")));
    const told = [trouble.value.text];
    late.resolve({ compressed: false });
    await until(() => trouble.value.text !== told[0]);
    return { isTaken, told: [...told, trouble.value.text] };
  },

  async commands() {
    begin();
    const { commandIn } = await load("chat/commands.js");
    const named = (text) => commandIn(text)?.command.name ?? null;
    return Object.fromEntries(["/new", " /stop ", "/rename Green tea", "/new feature: tea", "/compress the pictures", "/rename", "/tea"].map((text) => [text, named(text)]));
  },
};

const result = await CASES[process.argv[2]]();
process.stdout.write(JSON.stringify(result), () => process.exit());
