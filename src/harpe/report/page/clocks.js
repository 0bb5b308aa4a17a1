// The clocks of each stage, as bars: what a plan does, at a glance.

const clocks = (() => {
  const holder = document.getElementById('clocks');
  const highest = Math.max(0, ...modes.flat().map(mode => mode.clock));
  const LABEL = 34;  // css pixels that four digits need

  /** Of the instructions of a stage that have a clock: MHz, the mean by time. */
  function clocksOf(stage, s) {
    let [time, sum, low, high] = [0, 0, Infinity, 0];
    for (const index of stage.mode) {
      const mode = modes[s][index];
      if (!(mode.clock > 0)) continue;
      time += mode.time;
      sum += mode.time * mode.clock;
      low = Math.min(low, mode.clock);
      high = Math.max(high, mode.clock);
    }
    return time > 0 ? {mean: sum / time, low, high} : null;
  }

  function draw(decoded) {
    holder.hidden = highest === 0;
    if (holder.hidden) return;
    const stages = decoded.stages.map(clocksOf);
    const width = holder.clientWidth;
    const [left, top, bottom] = [36, 24, 112];
    const step = (width - left) / stages.length;
    const y = clock => bottom - (clock / highest) * (bottom - top);
    const words = stages.map((c, s) => c && `stage ${s} ${fixed(c.mean, 0)} MHz, from ${c.low} to ${c.high}`).filter(Boolean);
    const svg = element('svg', {height: bottom + 20, viewBox: `0 0 ${width} ${bottom + 20}`, role: 'img',
      'aria-label': `Clocks: ${words.join('; ')}`});
    element('path', {class: 'axis', d: `M${left} ${bottom}H${width}`}, null, svg);
    element('path', {class: 'guide', d: `M${left} ${y(highest)}H${width}`}, null, svg);
    element('text', {class: 'e', x: left - 6, y: y(highest) + 4}, String(highest), svg);
    element('text', {class: 'e', x: left - 6, y: bottom + 4}, '0', svg);
    stages.forEach((c, s) => {
      const middle = left + (s + 0.5) * step;
      if (step >= 14 || s % 8 === 0) element('text', {class: 'm', x: middle, y: bottom + 15}, String(s), svg);
      if (!c) return;
      const bar = Math.min(26, 0.7 * step);
      const tip = `Stage ${s}: ${fixed(c.mean, 0)} MHz on average, ${c.low} to ${c.high} MHz`;
      const mark = element('rect', {class: 'mean', x: middle - bar / 2, y: y(c.mean), width: bar, height: bottom - y(c.mean)}, null, svg);
      element('title', {}, tip, mark);
      if (c.high > c.low) element('path', {class: 'range', d: `M${middle} ${y(c.high)}V${y(c.low)}`}, null, svg);
      if (step >= LABEL) element('text', {class: 'm strong', x: middle, y: top - 6}, fixed(c.mean, 0), svg);
    });
    holder.querySelector('svg')?.remove();
    holder.append(svg);
  }
  return {draw};
})();
