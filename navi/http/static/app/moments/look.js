// The look of what stands at a moment, which comes with the first view of it.

import { stylesheet } from "../stylesheet.js";

await stylesheet("../../style/moment_views.css", import.meta.url);
