// The page: what is drawn into it, once its words are there.

import { createElement, render } from "./html.js";
import { notLoaded } from "./lazy.js";
import { App } from "./shell/app.js";
import { speakAsChosen } from "./strings.js";

// English is here.
await speakAsChosen().catch(notLoaded);
const app = document.getElementById("app");
app.replaceChildren();
render(createElement(App), app);
