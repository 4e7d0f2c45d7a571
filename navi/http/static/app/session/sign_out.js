// The end of a login.

import { post } from "../api.js";
import { forgetPerson } from "../kept.js";
import { go } from "../router.js";
import { doing } from "./open_session.js";
import { departNow } from "./session_list.js";

/** End the login, unless what was deleted cannot be now; nothing of a person stays in this browser. */
export async function signOut() {
  if (!(await departNow())) return; // afterwards nobody is there who may
  if (!(await doing(() => post("/auth/logout")))) return;
  go({});
  forgetPerson();
  location.reload();
}
