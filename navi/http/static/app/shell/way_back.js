// Where the way back from a page that is not about one session leads: to what was open before, or to the
// beginning for whoever came there from elsewhere.

import { effect } from "../html.js";
import { go, route } from "../router.js";

let before = {};
effect(() => {
  if (route.value.place === null) before = route.value;
});

export const goBack = () => go(before);
