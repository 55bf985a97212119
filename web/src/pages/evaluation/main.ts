// The report of an evaluation: a page of its own.
import type { EvaluationRecord } from "../../core/contract";
import { read, unreadable } from "../../core/read";
import { type EvaluationPage, mount } from "./page";
import "../../core/style.css";

/** What a script on the page may reach, as `equiscope`. */
export const running: { evaluation?: EvaluationPage } = {};

const place = document.getElementById("app");
const record = document.getElementById("evaluationrecord");
if (place && record)
  read<EvaluationRecord>(record).then((evaluation) => {
    running.evaluation = mount(evaluation, place);
  }, unreadable(place));
