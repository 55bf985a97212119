// The operations that a page may replay: a closed, small list, each here and in `src/equiscope/trace/ops.py`, nowhere else.
import { activation } from "./activation";
import { add } from "./add";
import { both } from "./both";
import { broadcast_heads } from "./broadcast_heads";
import { cast } from "./cast";
import { column } from "./column";
import { concat } from "./concat";
import { distance } from "./distance";
import { flatten } from "./flatten";
import { gather } from "./gather";
import { heads } from "./heads";
import { join } from "./join";
import { mask } from "./mask";
import { matmul } from "./matmul";
import { mean } from "./mean";
import { multiply } from "./multiply";
import { norm } from "./norm";
import { not_after } from "./not_after";
import type { Op } from "./op";
import { pick } from "./pick";
import { rotate } from "./rotate";
import { row } from "./row";
import { scale } from "./scale";
import { sinusoid } from "./sinusoid";
import { softmax } from "./softmax";
import { squeeze } from "./squeeze";
import { subtract } from "./subtract";
import { transpose } from "./transpose";

export type { Cell, Explanation, Op, Params, Piece, Term } from "./op";

export const OPERATIONS: Record<string, Op> = {
  matmul,
  add,
  subtract,
  multiply,
  scale,
  distance,
  cast,
  activation,
  sinusoid,
  rotate,
  not_after,
  both,
  mask,
  softmax,
  norm,
  gather,
  concat,
  heads,
  join,
  transpose,
  column,
  row,
  squeeze,
  broadcast_heads,
  mean,
  pick,
  flatten,
};
