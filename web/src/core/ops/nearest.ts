/** The nearest whole number, halves to the even one as in torch (Math.round takes them up). */
export function nearest(x: number): number {
  const up = Math.round(x);
  return up - x === 0.5 && up % 2 !== 0 ? up - 1 : up;
}
