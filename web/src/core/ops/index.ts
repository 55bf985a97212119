// The operations that a page may replay: a closed, small list, each here and in `src/equiscope/program/operations.py`, nowhere else.
import { activation } from "./activation";
import { add } from "./add";
import { below } from "./below";
import { bins } from "./bins";
import { block } from "./block";
import { both } from "./both";
import { broadcast_heads } from "./broadcast_heads";
import { bucket } from "./bucket";
import { cast } from "./cast";
import { clamp } from "./clamp";
import { column } from "./column";
import { columns } from "./columns";
import { concat } from "./concat";
import { distance } from "./distance";
import { divide } from "./divide";
import { either } from "./either";
import { equal } from "./equal";
import { flatten } from "./flatten";
import { function_ } from "./function";
import { gather } from "./gather";
import { heads } from "./heads";
import { join } from "./join";
import { later } from "./later";
import { loops } from "./loops";
import { mask } from "./mask";
import { matmul } from "./matmul";
import { maximum } from "./maximum";
import { mean } from "./mean";
import { modulo } from "./modulo";
import { multiply } from "./multiply";
import { neighbours } from "./neighbours";
import { norm } from "./norm";
import { not_after } from "./not_after";
import type { Op } from "./op";
import { opposite } from "./opposite";
import { pick } from "./pick";
import { repeat_heads } from "./repeat_heads";
import { rotate } from "./rotate";
import { row } from "./row";
import { scale } from "./scale";
import { share } from "./share";
import { sinusoid } from "./sinusoid";
import { softmax } from "./softmax";
import { squeeze } from "./squeeze";
import { subtract } from "./subtract";
import { take } from "./take";
import { transpose } from "./transpose";

export type { Cell, Explanation, Op, Params, Piece, Term } from "./op";

export const OPERATIONS: Record<string, Op> = {
  matmul,
  add,
  subtract,
  multiply,
  divide,
  scale,
  maximum,
  clamp,
  distance,
  cast,
  activation,
  function: function_,
  sinusoid,
  bucket,
  rotate,
  not_after,
  both,
  either,
  opposite,
  equal,
  below,
  modulo,
  block,
  mask,
  softmax,
  share,
  later,
  norm,
  gather,
  neighbours,
  take,
  bins,
  columns,
  concat,
  repeat_heads,
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
  loops,
};
