// The frontier: plans, the bound below them, all-max, and how little lies between plans and bound.

const chart = (() => {
  const holder = document.getElementById('chart');
  let x, y, yGap, current, rule, currentLabel, currentGap;

  const gapOf = point => (point.bound > 0 ? point.energy / point.bound - 1 : null);
  const widestGap = Math.max(0, ...data.points.map(gapOf).filter(gap => gap !== null));

  /** A linear map from values to pixels, with room (a share of the range) before and after. */
  function axis(values, before, after, from, to) {
    const least = Math.min(...values);
    const most = Math.max(...values);
    const range = most > least ? most - least : Math.max(1e-9, Math.abs(most));
    const low = least - before * range;
    const high = most + after * range;
    const at = value => from + ((value - low) / (high - low)) * (to - from);
    const value = pixel => low + ((pixel - from) / (to - from)) * (high - low);
    return Object.assign(at, {low, high, value});
  }

  function draw() {
    const width = holder.clientWidth;
    const narrow = width < 520;
    const frame = {left: 58, right: width - (narrow ? 14 : 54), top: 62, bottom: narrow ? 300 : 352};
    const strip = {top: frame.bottom + 50, bottom: frame.bottom + 98};
    const height = widestGap > 0 ? strip.bottom + 14 : frame.bottom + 40;
    const svg = element('svg', {height, viewBox: `0 0 ${width} ${height}`, role: 'img',
      'aria-label': 'Iteration energy over iteration time: plans, lower bound and all-max'});
    const shown = [data.allMax, ...data.comparisons, ...data.points];
    x = axis(shown.map(p => p.time), 0.03, 0.03, frame.left, frame.right);
    y = axis(shown.map(p => p.energy), 0.16, 0.06, frame.bottom, frame.top);

    drawAxes(svg, frame, narrow);
    drawRelativeAxes(svg, frame, narrow);
    drawGuides(svg, frame);
    drawBound(svg, frame);
    drawPoints(svg, frame);
    drawKey(svg, frame, narrow);
    rule = element('path', {class: 'rule'}, null, svg);
    if (widestGap > 0) drawGaps(svg, frame, strip, narrow);
    current = element('circle', {class: 'current', r: 7}, null, svg);
    currentLabel = element('text', {class: 'ours halo'}, null, svg);
    rule.dataset.bottom = height;
    holder.replaceChildren(svg);
    svg.addEventListener('pointermove', hover);
    svg.addEventListener('pointerdown', press);
    svg.addEventListener('pointerleave', hideTip);
    placeSlider();
  }

  function drawAxes(svg, frame, narrow) {
    element('path', {class: 'axis', d: `M${frame.left} ${frame.top}V${frame.bottom}H${frame.right}`}, null, svg);
    const times = ticks(x.low / timeUnit.divisor, x.high / timeUnit.divisor, narrow ? 4 : 8);
    for (const mark of times.values) {
      const at = x(mark * timeUnit.divisor);
      element('path', {class: 'axis', d: `M${at} ${frame.bottom}v4`}, null, svg);
      element('text', {class: 'm', x: at, y: frame.bottom + 18}, fixed(mark, times.decimals), svg);
    }
    element('text', {class: 'e strong', x: frame.right, y: frame.bottom + 34}, `iteration time, ${timeUnit.name}`, svg);
    const energies = ticks(y.low / energyUnit.divisor, y.high / energyUnit.divisor, 6);
    for (const mark of energies.values) {
      const at = y(mark * energyUnit.divisor);
      element('path', {class: 'axis', d: `M${frame.left} ${at}h-4`}, null, svg);
      element('text', {class: 'e', x: frame.left - 8, y: at + 4}, fixed(mark, energies.decimals), svg);
    }
    element('text', {class: 'strong', x: 0, y: 16}, `iteration energy, ${energyUnit.name}`, svg);
  }

  /** The same ranges against all-max: change of time above, saving at the right. */
  function drawRelativeAxes(svg, frame, narrow) {
    const {time, energy} = data.allMax;
    const slower = ticks(100 * (x.low / time - 1), 100 * (x.high / time - 1), narrow ? 3 : 6);
    for (const mark of slower.values) {
      const at = x(time * (1 + mark / 100));
      element('path', {class: 'axis', d: `M${at} ${frame.top}v-4`}, null, svg);
      element('text', {class: 'm', x: at, y: frame.top - 9}, changeText(mark / 100, slower.decimals), svg);
    }
    element('text', {class: 'e', x: frame.right, y: 16}, narrow ? 'time change' : 'change of time, and saving at the right, against all-max', svg);
    if (narrow) return;
    const less = ticks(100 * (1 - y.high / energy), 100 * (1 - y.low / energy), 6);
    for (const mark of less.values) {
      const at = y(energy * (1 - mark / 100));
      element('path', {class: 'axis', d: `M${frame.right} ${at}h4`}, null, svg);
      element('text', {x: frame.right + 8, y: at + 4}, changeText(-mark / 100, less.decimals), svg);
    }
  }

  function drawGuides(svg, frame) {
    const mark = (time, name, side) => {
      if (time < x.low || time > x.high) return;
      element('path', {class: 'guide', d: `M${x(time)} ${frame.top}V${frame.bottom}`}, null, svg);
      const label = element('text', {class: (side < 0 ? 'e ' : '') + 'halo', x: x(time) + side * 5, y: frame.bottom - 8}, null, svg);
      const [letter, index] = name;
      label.append(letter);
      if (index === 'min') element('tspan', {'font-size': '9px', dy: 3}, index, label);
      else label.append(index);
      element('tspan', index === 'min' ? {dy: -3} : {}, NBSP + timeText(time), label);
    };
    mark(data.fastest, ['T', 'min'], 1);
    if (x(data.leastEnergy) - x(data.fastest) > 4) mark(data.leastEnergy, ['T', '*'], x(data.leastEnergy) - x(data.fastest) > 190 ? -1 : 1);
  }

  function drawBound(svg, frame) {
    if (data.bound.length === 0) return;
    const clip = element('clipPath', {id: 'plot'}, null, svg);
    element('rect', {x: frame.left, y: frame.top, width: frame.right - frame.left, height: frame.bottom - frame.top}, null, clip);
    const path = data.bound.map(([time, energy]) => `${x(time).toFixed(2)} ${y(energy).toFixed(2)}`).join('L');
    element('path', {class: 'bound', d: 'M' + path, 'clip-path': 'url(#plot)'}, null, svg);
  }

  function drawPoints(svg, frame) {
    data.points.forEach(point => element('circle', {class: 'point', cx: x(point.time), cy: y(point.energy), r: 2.2}, null, svg));
    for (const other of data.comparisons) {
      element('circle', {class: 'other', cx: x(other.time), cy: y(other.energy), r: 4}, null, svg);
      element('text', {class: 'halo', x: x(other.time) + 9, y: y(other.energy) + 4}, other.name, svg);
    }
    const {time, energy} = data.allMax;
    element('circle', {class: 'reference', cx: x(time), cy: y(energy), r: 5}, null, svg);
    const atRight = x(time) > frame.right - 200;
    element('text', {class: atRight ? 'strong halo e' : 'strong halo', x: x(time) + (atRight ? -11 : 11), y: y(energy) + (atRight ? 20 : 4)}, `all-max: ${timeText(time)}, ${energyText(energy)}`, svg);
    const chosen = data.points[data.chosen];
    element('circle', {class: 'chosen', cx: x(chosen.time), cy: y(chosen.energy), r: 10.5}, null, svg);
  }

  /** In a corner that a falling curve leaves empty: on phones the lower one, off the label of the current plan. */
  function drawKey(svg, frame, narrow) {
    const lines = [['plans', 'point', 2.2], ['chosen plan', 'chosen', 5], ['proven lower bound', 'bound', 0]];
    const corner = narrow ? {x: frame.left + 32, y: frame.bottom - 66} : {x: frame.right - 132, y: frame.top + 18};
    lines.forEach(([name, style, radius], i) => {
      const at = {x: corner.x, y: corner.y + 18 * i};
      if (style === 'bound' && data.bound.length === 0) return;
      if (radius) element('circle', {class: style, cx: at.x - 14, cy: at.y - 4, r: radius}, null, svg);
      else element('path', {class: style, d: `M${at.x - 22} ${at.y - 4}h16`}, null, svg);
      element('text', {x: at.x, y: at.y}, name, svg);
    });
  }

  function drawGaps(svg, frame, strip, narrow) {
    const high = widestGap * 1.12;
    yGap = gap => strip.bottom - (gap / high) * (strip.bottom - strip.top);
    element('path', {class: 'axis', d: `M${frame.left} ${strip.top}V${strip.bottom}H${frame.right}`}, null, svg);
    const marks = [2, 3].map(count => ticks(0, 100 * high, count)).find(found => found.values.length > 1);
    for (const mark of marks.values) {
      element('path', {class: 'axis', d: `M${frame.left} ${yGap(mark / 100)}h-4`}, null, svg);
      element('text', {class: 'e', x: frame.left - 8, y: yGap(mark / 100) + 4}, fixed(mark, marks.decimals), svg);
    }
    element('text', {class: 'strong', x: 0, y: strip.top - 9}, narrow ? 'above the bound, %' : 'energy above the bound, %', svg);
    for (const point of data.points) {
      if (point.tightBound) {
        const [at, from, to] = [x(point.time), yGap(gapOf(point)), yGap(point.energy / point.tightBound - 1)];
        element('path', {class: 'tight', d: `M${at} ${from}V${to}M${at - 3} ${to}h6`}, null, svg);
      }
      if (gapOf(point) !== null) element('circle', {class: 'point', cx: x(point.time), cy: yGap(gapOf(point)), r: 1.9}, null, svg);
    }
    currentGap = element('circle', {class: 'current', r: 5}, null, svg);
  }

  /** The slider lies under the points it moves through, its thumb under the current one. */
  function placeSlider() {
    const thumb = 20;
    const [from, to] = [stops[0], stops[stops.length - 1]].map(i => x(data.points[i].time));
    slider.style.marginLeft = from - thumb / 2 + 'px';
    slider.style.width = to - from + thumb + 'px';
  }

  function select(point) {
    const cx = x(point.time);
    const cy = y(point.energy);
    current.setAttribute('cx', cx);
    current.setAttribute('cy', cy);
    rule.setAttribute('d', `M${cx} ${cy + 8}V${rule.dataset.bottom}`);
    const gap = gapOf(point);
    if (currentGap) {
      currentGap.setAttribute('visibility', gap === null ? 'hidden' : 'visible');
      currentGap.setAttribute('cx', cx);
      if (gap !== null) currentGap.setAttribute('cy', yGap(gap));
    }
    currentLabel.textContent = `${timeText(point.time)}, ${energyText(point.energy)}`;
    const right = cx > (x(x.low) + x(x.high)) / 2;
    const length = currentLabel.getComputedTextLength();
    const left = right ? cx + 12 - length : cx + 12;
    // Above the curve is room, unless something to compare with stands there.
    const taken = data.comparisons.some(other =>
      x(other.time) > left - 12 - 7 * other.name.length && x(other.time) < left + length + 8 && Math.abs(y(other.energy) - cy + 18) < 20);
    const clipped = taken && cx - 12 - length < x(x.low);
    currentLabel.setAttribute('x', clipped ? x(x.low) + 8 : taken ? cx - 12 : cx + 12);
    currentLabel.setAttribute('y', clipped ? cy + 56 : taken ? cy + 26 : cy - 16);
    currentLabel.setAttribute('class', !clipped && (right || taken) ? 'ours halo e' : 'ours halo');
  }

  function nearest(event, candidates) {
    const box = holder.getBoundingClientRect();
    const time = x.value(event.clientX - box.left);
    const distance = i => Math.abs(data.points[i].time - time);
    return candidates.reduce((best, i) => (distance(i) < distance(best) ? i : best), candidates[0]);
  }

  function hover(event) {
    if (event.buttons) return press(event);
    const all = data.points.map((_, i) => i);
    const point = data.points[nearest(event, all)];
    const rows = [
      ['energy', energyText(point.energy)],
      ['energy, against all-max', changeText(point.energy / data.allMax.energy - 1, 2)],
      ['time, against all-max', changeText(point.time / data.allMax.time - 1, 2)],
      ['average power', `${fixed(point.energy / point.time / data.gpus, 1)}${NBSP}W/GPU`],
    ];
    if (point.bound > 0) {
      rows.push(['lower bound', energyText(point.bound)]);
      rows.push(['gap', changeText(gapOf(point), 3)]);
      if (point.tightBound) {
        rows.push(['tightened bound', energyText(point.tightBound)]);
        rows.push(['gap to it', changeText(point.energy / point.tightBound - 1, 3)]);
      }
    }
    return showTip(event, timeText(point.time), rows);
  }

  function press(event) {
    hideTip();
    moveTo(nearest(event, stops));
  }

  return {draw, select};
})();
