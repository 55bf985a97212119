// The script of a document with figures: <equiscope-figure>, <equiscope-exercise>, and links that act on a figure.
import { Exercise } from "./exercise";
import { actOnFigures, Figure } from "./figure";

if (!customElements.get("equiscope-figure")) {
  customElements.define("equiscope-figure", Figure);
  customElements.define("equiscope-exercise", Exercise);
  document.addEventListener("click", actOnFigures, true);
}
