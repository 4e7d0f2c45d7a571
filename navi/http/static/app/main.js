// The page: what is drawn into it, once its words are there.

import { createElement, render } from "./html.js";
import { App } from "./shell/app.js";
import { speakAsChosen } from "./strings.js";

await speakAsChosen();
render(createElement(App), document.getElementById("app"));
