// Goals of exercises: what a person is asked to reach on a page, marked on the page's own numbers.

/** Whether a goal is reached, and a sentence about the numbers as they are. */
export interface Marked {
  right: boolean;
  says: string;
}

/** The goals of a page by name. A script on the page reaches them as `equiscope.goals`. */
export type Goals<M = Marked> = Record<string, () => M>;

/** Goals that are functions of a page or of its desk, for this one. */
export const goalsOn = <P>(goals: Record<string, (page: P) => Marked>, page: P): Goals =>
  Object.fromEntries(Object.entries(goals).map(([name, goal]) => [name, () => goal(page)]));

/** The same goals, marked once the page's numbers are `settled`: a worker computes them. */
export const onceSettled = (goals: Goals, settled: () => Promise<void>): Goals<Promise<Marked>> =>
  Object.fromEntries(Object.entries(goals).map(([name, goal]) => [name, () => settled().then(goal)]));
