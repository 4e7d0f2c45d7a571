// The look of the places, which comes with the first of them.

import { stylesheet } from "../stylesheet.js";

await stylesheet("../../style/places.css", import.meta.url);
