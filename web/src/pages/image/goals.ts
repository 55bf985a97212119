// What exercises ask of this page: each goal is a function of the desk.
import type { Marked } from "../../core/goals";
import { LIES_ON, liesOn, ratio, type ImageDesk } from "./desk";

const percent = (share: number): string => `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;

export const goals: Record<string, (desk: ImageDesk) => Marked> = {
  /** A selected patch that attends to all patches almost equally. */
  "even-row"(desk) {
    const times = Math.max(...desk.row("weights")) * desk.patches;
    const right = desk.state.scale === 1 && times < 2;
    if (desk.state.scale !== 1) return { right, says: "Leave the queries as they are given: set their scale to 1." };
    return { right, says: `The largest weight of this patch is ${times.toFixed(1)} times 1/${desk.patches}.` };
  },

  /** A selected patch of lawn that attends to lawn, and nearer than without positions. */
  "near-lawn"(desk) {
    const region = desk.regionOf(desk.state.patch);
    const share = desk.shares().find((one) => one.region === region);
    if (region?.name !== "lawn" || !share) return { right: false, says: "Select a patch of lawn." };
    const near = desk.distance();
    const far = desk.distance(desk.record.schemes[0].name);
    const says = `It attends ${near.toFixed(1)} patches away on average, ${far.toFixed(1)} without positions, and gives the lawn ${percent(share.attention)}: ${ratio(share).toFixed(1)} times its share of the area (${LIES_ON} or more is asked for).`;
    return { right: near < 0.9 * far && liesOn(share), says };
  },
};
