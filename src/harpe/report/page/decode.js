// Reads the compact plans of the page's data (see page_data.h).

const data = JSON.parse(document.getElementById('data').textContent);

/** Of plans whose clocks come late "the bound" is their own, the tightened one; the other takes changes as free. */
const isLate = data.freeBound.length > 0;

const VALUE_OF_CHARACTER = new Uint8Array(128);
'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  .split('')
  .forEach((character, value) => { VALUE_OF_CHARACTER[character.charCodeAt(0)] = value; });

/** Power in watts of every mode of every stage, beside [MHz, seconds, joules, other knobs if it sets any]. */
const modes = data.modes.map((stage, s) => stage.map(([clock, time, energy, knobs]) => ({
  clock,
  knobs,
  time,
  energy,
  ticks: Math.floor(time / data.tick),
  power: time > 0 ? energy / time : data.blockingPower[s],
})));

/**
 * The instructions of a plan: per stage when each starts and ends (ticks) and its mode, and the
 * transfers drawn on the stage.
 */
function decode(plan) {
  const shape = data.shapes[plan.shape];
  const stages = plan.stages.map((stream, s) => {
    const count = shape.stages[s].kinds.length;
    const start = new Float64Array(count);
    const end = new Float64Array(count);
    const mode = new Uint32Array(count);
    let at = 0;
    const next = () => {
      let number = 0;
      let scale = 1;
      for (;;) {
        const value = VALUE_OF_CHARACTER[stream.charCodeAt(at++)];
        number += (value & 31) * scale;
        if (value < 32) return number;
        scale *= 32;
      }
    };
    let cursor = 0;
    for (let i = 0; i < count; i++) {
      mode[i] = next();
      start[i] = cursor + next();
      end[i] = cursor = start[i] + modes[s][mode[i]].ticks;
    }
    return {start, end, mode, transfers: [], ...shape.stages[s]};
  });
  for (const [fromStage, fromPosition, toStage, toPosition, ticks] of shape.links) {
    const ready = toPosition > 0 ? stages[toStage].end[toPosition - 1] : 0;
    const start = Math.max(stages[fromStage].end[fromPosition], ready);
    const transfer = {start, end: start + ticks, from: fromStage, to: toStage};
    stages[fromStage].transfers.push(transfer);
    stages[toStage].transfers.push(transfer);
  }
  return {stages, end: plan.time / data.tick};
}

/** Index of the last entry of a sorted array that is at most `value`, or -1. */
function lastAtMost(sorted, value) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
