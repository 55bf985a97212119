// The examples with the largest errors, as a person sees them.
import type { AnsweredExample, PartEvaluation } from "../../core/contract";
import { asPart, h } from "../../core/dom";

export function worst(part: PartEvaluation): HTMLElement {
  return asPart(
    "worst",
    h(
      "section.part",
      h("h2", "Worst examples"),
      h("p.quiet", "Those with the largest errors, the worst first. Wrong labels are often found here."),
      h("ol.worst", part.worst!.map(card)),
    ),
  );
}

function card(example: AnsweredExample): HTMLElement {
  const { name, answer, target, text, picture } = example;
  const lines: [string, string][] = [["answer", answer], ...(target ? [["true", target] as [string, string]] : [])];
  return h(
    "li",
    picture && h("img", { src: picture, alt: `Input of the example ${name}` }),
    h(
      "div",
      text ? h("blockquote", text) : h("p.name", name),
      h("dl", lines.map(([term, said]) => h("div", h("dt", term), h("dd", said)))), // prettier-ignore
    ),
  );
}
