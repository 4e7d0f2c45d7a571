// The end of a login.

import { complain } from "../announce.js";
import { post } from "../api.js";
import { forgetPerson } from "../kept.js";
import { go } from "../router.js";
import { t } from "../strings.js";
import { doing } from "./open_session.js";
import { Outbox } from "./outbox.js";
import { departNow } from "./session_list.js";

/** End the login, unless what was deleted cannot be now, or what was said; nothing of a person stays in this browser. */
export async function signOut() {
  if (!(await departNow())) return; // afterwards nobody is there who may
  const problem = await Outbox.sendAll();
  if (problem) complain(t("not-sent", { why: problem.message }), { name: t("sign-out"), run: leave });
  else await leave();
}

async function leave() {
  if (!(await doing(() => post("/auth/logout")))) return;
  go({});
  forgetPerson();
  location.reload();
}
