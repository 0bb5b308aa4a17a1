// The frontier: plans, the bound below them, all-max, and how little lies between plans and bound.

const chart = (() => {
  const holder = document.getElementById('chart');
  let x, y, yGap, places, current, rule, currentLabel, currentGap;

  /** The bound that is drawn below the plan. */
  const boundOf = point => (isLate && point.tightBound) || point.bound;
  /** The highest bound that is known for the plan. */
  const bestBoundOf = plan => plan.tightBound || plan.bound;
  const gapOf = point => (point.bound > 0 ? point.energy / boundOf(point) - 1 : null);
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

  /** Places for labels, so that they can be read, as frontier_svg.cc has them for files: earlier labels keep theirs. */
  function labelPlaces(plot) {
    const [ascent, descent] = [12, 4];
    const taken = [];
    const marks = [];
    const overlap = (a, b) => Math.max(0, Math.min(a.right, b.right) - Math.max(a.left, b.left)) *
      Math.max(0, Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top));
    const boxOf = (left, baseline, width) => ({left, top: baseline - ascent, right: left + width, bottom: baseline + descent});
    const sum = (boxes, box) => boxes.reduce((total, other) => total + overlap(other, box), 0);
    const cost = box => 100 * ((box.right - box.left) * (box.bottom - box.top) - overlap(box, plot)) +
      10 * sum(taken, box) + 0.1 * sum(marks, box);
    return {
      add: (left, baseline, width) => taken.push(boxOf(left, baseline, width)),
      mark: (at, above) => marks.push({left: at - 2, top: above - 2, right: at + 2, bottom: above + 2}),
      /** Near the mark at (at, level): beside it, or above it, where that is free. */
      find(at, level, distance, width, above) {
        const inPlot = Math.max(plot.left + 4, Math.min(plot.right - width - 4, at - width / 2));
        let best = null;
        let further = 0;
        for (const below of above ? [-16, 26, 4, -32, 42, -48, 58] : [4, -13, 22, -29, 38, -45, 54]) {
          for (const left of [at + distance, at - distance - width, inPlot]) {
            const hidesMark = left === inPlot && Math.abs(below - 4) < ascent;
            const total = cost(boxOf(left, level + below, width)) + further++ + (hidesMark ? 1000 : 0);
            if (best === null || total < best.total) best = {total, left, baseline: level + below};
          }
        }
        return best;
      },
    };
  }

  /** Returns what keeps other labels off this one. */
  function placeLabel(text, at, level, distance, above) {
    const width = text.getComputedTextLength();
    const place = places.find(at, level, distance, width, above);
    text.setAttribute('x', place.left);
    text.setAttribute('y', place.baseline);
    return [place.left, place.baseline, width];
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
    holder.replaceChildren(svg);  // labels are measured
    places = labelPlaces(frame);
    x = axis(shown.map(p => p.time), 0.03, 0.03, frame.left, frame.right);
    y = axis(shown.map(p => p.energy), 0.16, 0.06, frame.bottom, frame.top);

    drawAxes(svg, frame, narrow);
    drawRelativeAxes(svg, frame, narrow);
    drawGuides(svg, frame);
    drawBounds(svg, frame);
    drawKey(svg, frame, narrow);
    drawPoints(svg);
    rule = element('path', {class: 'rule'}, null, svg);
    if (widestGap > 0) drawGaps(svg, frame, strip, narrow);
    current = element('circle', {class: 'current', r: 7}, null, svg);
    currentLabel = element('text', {class: 'ours halo'}, null, svg);
    rule.dataset.bottom = height;
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
      const width = label.getComputedTextLength();
      places.add(x(time) + side * 5 - (side < 0 ? width : 0), frame.bottom - 8, width);
    };
    mark(data.fastest, ['T', 'min'], 1);
    if (x(data.leastEnergy) - x(data.fastest) > 4) mark(data.leastEnergy, ['T', '*'], x(data.leastEnergy) - x(data.fastest) > 190 ? -1 : 1);
  }

  function drawBounds(svg, frame) {
    const clip = element('clipPath', {id: 'plot'}, null, svg);
    element('rect', {x: frame.left, y: frame.top, width: frame.right - frame.left, height: frame.bottom - frame.top}, null, clip);
    for (const [curve, style] of [[data.freeBound, 'free'], [data.bound, 'bound']]) {
      if (curve.length === 0) continue;
      const path = curve.map(([time, energy]) => `${x(time).toFixed(2)} ${y(energy).toFixed(2)}`).join('L');
      element('path', {class: style, d: 'M' + path, 'clip-path': 'url(#plot)'}, null, svg);
    }
  }

  function drawPoints(svg) {
    for (const point of data.points) {
      element('circle', {class: 'point', cx: x(point.time), cy: y(point.energy), r: 2.2}, null, svg);
      places.mark(x(point.time), y(point.energy));
    }
    const {time, energy} = data.allMax;
    element('circle', {class: 'reference', cx: x(time), cy: y(energy), r: 5}, null, svg);
    const words = `all-max: ${timeText(time)}, ${energyText(energy)}`;
    places.add(...placeLabel(element('text', {class: 'strong halo'}, words, svg), x(time), y(energy), 11));
    for (const other of data.comparisons) {
      element('circle', {class: 'other', cx: x(other.time), cy: y(other.energy), r: 4}, null, svg);
      places.add(...placeLabel(element('text', {class: 'halo'}, other.name, svg), x(other.time), y(other.energy), 9));
    }
    const chosen = data.points[data.chosen];
    element('circle', {class: 'chosen', cx: x(chosen.time), cy: y(chosen.energy), r: 10.5}, null, svg);
  }

  /** In a corner that a falling curve leaves empty: on phones the lower one, off the label of the current plan. */
  function drawKey(svg, frame, narrow) {
    const lines = [['plans', 'point', 2.2], ['chosen plan', 'chosen', 5], ['proven lower bound', 'bound', 0],
      ...(isLate ? [['if changes were free', 'free', 0]] : [])];
    const allMax = x(data.allMax.time);
    const right = allMax > frame.right - 180 ? allMax - 200 : frame.right;  // beside the label of all-max
    const corner = narrow ? {x: frame.left + 32, y: frame.bottom - 12 - 18 * lines.length} : {x: right - 132, y: frame.top + 18};
    lines.forEach(([name, style, radius], i) => {
      const at = {x: corner.x, y: corner.y + 18 * i};
      if (style === 'bound' && data.bound.length === 0) return;
      if (radius) element('circle', {class: style, cx: at.x - 14, cy: at.y - 4, r: radius}, null, svg);
      else element('path', {class: style, d: `M${at.x - 22} ${at.y - 4}h16`}, null, svg);
      const text = element('text', {x: at.x, y: at.y}, name, svg);
      places.add(at.x - 22, at.y, text.getComputedTextLength() + 22);
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
      if (point.tightBound && !isLate) {
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
    placeLabel(currentLabel, cx, cy, 12, true);  // above the curve is room
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
      ['energy, against all-max', changeText(point.energy / allMaxFor(point).energy - 1, 2)],
      ['time, against all-max', changeText(point.time / allMaxFor(point).time - 1, 2)],
      ['average power', `${fixed(point.energy / point.time / data.gpus, 1)}${NBSP}W/GPU`],
    ];
    if (point.bound > 0) {
      rows.push(['bound', energyText(bestBoundOf(point))]);
      rows.push(['gap to it', changeText(point.energy / bestBoundOf(point) - 1, 3)]);
    }
    return showTip(event, timeText(point.time), rows);
  }

  function press(event) {
    hideTip();
    moveTo(nearest(event, stops));
  }

  return {draw, select, bestBoundOf};
})();
