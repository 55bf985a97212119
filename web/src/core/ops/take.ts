// take: one number of each row for every pair, x [..., N, R] by index [..., N, M]: out[i, j] = x[i, index[i, j]]. As in gather,
// an index loses its fraction, and one outside the row is refused.
import { aligned, at, broadcast, spread, zeros } from "../tensor";
import { cell, type Op, pieces, symbol } from "./op";

export const take: Op = {
  evaluate([x, index]) {
    const [choice, width] = [x.shape[x.shape.length - 1], index.shape[index.shape.length - 1]];
    const lead = broadcast(x.shape.slice(0, -1), index.shape.slice(0, -1));
    const out = zeros([...lead, width]);
    const [rowsX, rowsI] = [spread(x.shape.slice(0, -1), lead, choice), spread(index.shape.slice(0, -1), lead, width)];
    for (let row = 0; row < rowsX.length; row++) {
      for (let j = 0; j < width; j++) {
        const from = Math.trunc(index.data[rowsI[row] + j]);
        if (!(from >= 0 && from < choice)) throw new Error(refusal(from, choice));
        out.data[row * width + j] = x.data[rowsX[row] + from];
      }
    }
    return out;
  },
  explain([x, index], _, place) {
    const lead = place.slice(0, -1);
    const asked = [...aligned(lead, index.shape.slice(0, -1)), place[place.length - 1]];
    const column = Math.trunc(at(index, asked));
    const from = [...aligned(lead, x.shape.slice(0, -1)), column];
    return { terms: [cell(0, from)], value: at(x, from), note: `column ${column} of the row`, more: [cell(1, asked)] };
  },
  formula: () => pieces`${symbol(0)}${{ sub: [{ text: "i" }] }}[${symbol(1)}]`,
};

const refusal = (column: number, choice: number): string =>
  `asks for column ${column} of rows with columns 0..${choice - 1}. Use fewer words, or positions closer together, or a scheme for larger distances.`;
