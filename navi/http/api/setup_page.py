"""The page behind the set-up link; the token in the link's fragment never reaches a server's log."""

from litestar import Response, get

from navi.http.requests.bodies import NO_STORE
from navi.http.requests.operation import operation

HTML = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Set up navi</title>
<script src="/setup.js" defer></script>
<h1>Set up navi</h1>
<form>
  <p>The first user is an admin, and owns what was in navi before.
  <p><label>Name <input name="name" autocomplete="username" required maxlength="64" autofocus></label>
  <p><label>Password <input name="password" type="password" autocomplete="new-password" required
     minlength="12" maxlength="1024"></label> 12 characters or more
  <p><button>Set up</button>
</form>
<p role="status"></p>
<p role="alert"></p>
</html>
"""
SCRIPT = """\
"use strict";
const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
history.replaceState(null, "", location.pathname);  // not kept in the history
const [form, status, alert] = ["form", "[role=status]", "[role=alert]"].map((s) => document.querySelector(s));
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  status.textContent = alert.textContent = "";
  const { name, password } = Object.fromEntries(new FormData(form));
  try {
    const answer = await fetch("/auth/setup", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ token, name, password }),
    });
    if (!answer.ok) throw new Error((await answer.json()).detail);
    form.hidden = true;
    status.textContent = `${name} is signed in.`;
  } catch (error) {
    alert.textContent = error.message;
  }
});
"""
CONTENT_SECURITY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@get(
    "/setup",
    opt=operation(
        access="open",
        answers={200: None},
        answer_content={"text/html": {"schema": {"type": "string"}}},
    ),
)
async def get_setup_page() -> Response[str]:
    """The page that makes the first user."""
    headers = {"Cache-Control": NO_STORE, "Content-Security-Policy": CONTENT_SECURITY}
    return Response(HTML, media_type="text/html", headers=headers)


@get(
    "/setup.js",
    opt=operation(
        access="open",
        answers={200: None},
        answer_content={"text/javascript": {"schema": {"type": "string"}}},
    ),
)
async def get_setup_script() -> Response[str]:
    """What that page does."""
    return Response(SCRIPT, media_type="text/javascript", headers={"Cache-Control": NO_STORE})
