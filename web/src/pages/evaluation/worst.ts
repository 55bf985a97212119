// The examples with the largest errors, as a person sees them.
import type { AnsweredExample, PartEvaluation } from "../../core/contract";
import { asPart, h } from "../../core/dom";

export function worst(part: PartEvaluation): HTMLElement {
  return asPart(
    "worst",
    h(
      "section.part",
      h("h2", "Worst examples"),
      h("p.quiet", `Those with the largest errors, the worst first.${part.classes?.length ? " Wrong labels are often found here." : ""}`), // prettier-ignore
      h("ol.worst", part.worst!.map(card)),
    ),
  );
}

/** A picture of few pixels shows them as squares. */
const enlarge = ({ target }: Event): void => {
  const image = target as HTMLImageElement;
  image.dataset.small = String(image.naturalWidth < 100);
};

function card(example: AnsweredExample): HTMLElement {
  const { name, answer, target, text, picture } = example;
  const lines: [string, string][] = [["answer", answer], ...(target ? [["true", target] as [string, string]] : [])];
  return h(
    "li",
    picture && h("img", { src: picture, alt: `Input of the example ${name}`, onload: enlarge }),
    h(
      "div",
      text ? h("blockquote", text) : h("p.name", { title: name }, name.split("/").slice(-2).join("/")),
      h("dl", lines.map(([term, said]) => h("div", h("dt", term), h("dd", said)))), // prettier-ignore
    ),
  );
}
