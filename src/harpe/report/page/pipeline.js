// A pipeline to scale: one row a stage, blocks coloured by power. Drawn on a canvas, for there may
// be tens of thousands of blocks; where they are narrower than a pixel, columns of average power
// stand for them.

const SHADES = data.power.light.fills.length;
const bytesOf = colour => [1, 3, 5].map(i => parseInt(colour.slice(i, i + 2), 16));
const TEXTS = ['#222222', '#ffffff'];

/** What a canvas cannot take from the style sheet: its colours, light on paper, else as the page's. */
const theme = {
  dark: window.matchMedia('(prefers-color-scheme: dark)'),
  isPrinting: false,
  get isDark() { return this.dark.matches && !this.isPrinting; },
  /** Of the palette. Its first block is the light one. */
  named(name) {
    const palette = this.isPrinting ? document.styleSheets[0].cssRules[0].style : getComputedStyle(document.documentElement);
    return palette.getPropertyValue('--' + name).trim();
  },
  /** Of powers: what fills blocks, their edges, and text on them. */
  get powers() { return this.isDark ? data.power.dark : data.power.light; },
  fill(index) { return this.powers.fills[index]; },
  edge(index) { return this.powers.edges[index]; },
  text(index) {
    const [red, green, blue] = bytesOf(this.fill(index));
    return TEXTS[0.299 * red + 0.587 * green + 0.114 * blue < 135 ? 1 : 0];
  },
};

function colourIndex(watts) {
  const fraction = (watts - data.power.low) / (data.power.high - data.power.low);
  return Math.round(Math.min(1, Math.max(0, fraction)) * (SHADES - 1));
}

const modeColours = modes.map(stage => stage.map(mode => colourIndex(mode.power)));
const idleColours = data.blockingPower.map(colourIndex);
const NARROW = 7; // css pixels
const FORWARD = data.kinds.indexOf('forward');
const LETTERS = {forward: 'F', backward: 'B', weight: 'W', recompute: 'R', recompute_backward: 'RB'};

/** The part of the time axis that both pipelines show, in ticks. */
const view = {
  from: 0,
  to: data.span / data.tick,
  whole: data.span / data.tick,
  set(from, length) {
    this.to = Math.min(this.whole, Math.max(length, from + length));
    this.from = Math.max(0, this.to - length);
    this.to = Math.min(this.whole, this.from + length);
  },
  get length() { return this.to - this.from; },
  get isWhole() { return this.length > 0.999 * this.whole; },
};

function label(stage, i) {
  const kind = data.kinds[stage.kinds[i]];
  const number = stage.microBatches[i];
  if (kind === 'forward_backward') return `F${number}B${stage.backwardMicroBatches[i]}`;
  return kind in LETTERS ? LETTERS[kind] + (number < 0 ? '' : number) : kind;
}

class Pipeline {
  constructor(canvas, hasAxis) {
    this.canvas = canvas;
    this.context = canvas.getContext('2d');
    this.hasAxis = hasAxis;
    this.decoded = null;
    this.marker = null;
    this.selected = null;
    canvas.addEventListener('pointermove', event => this.hover(event));
    canvas.addEventListener('pointerleave', () => this.leave());
  }

  /** `print` asks for more pixels than the screen has. */
  layout(print = 1) {
    const rows = data.modes.length;
    const width = this.canvas.clientWidth;
    const narrow = width < 620;
    this.ratio = Math.max(1, window.devicePixelRatio || 1) * print;
    this.rowHeight = rows <= 8 ? (narrow ? 18 : 24) : rows <= 16 ? 16 : rows <= 32 ? 10 : 6;
    this.rowGap = rows <= 8 ? 3 : rows <= 32 ? 2 : 1;
    this.left = narrow ? 22 : rows > 10 ? 66 : 58;
    this.width = width - this.left - 12;
    this.narrow = narrow;
    const height = 4 + rows * (this.rowHeight + this.rowGap) + (this.hasAxis ? 24 : 2);
    this.canvas.style.height = height + 'px';
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(height * this.ratio);
    this.hatch = this.makeHatch();
  }

  makeHatch() {
    const tile = document.createElement('canvas');
    const size = Math.round(6 * this.ratio);
    tile.width = tile.height = size;
    const context = tile.getContext('2d');
    context.strokeStyle = theme.isDark ? '#ffffff70' : '#00000070';
    context.lineWidth = this.ratio;
    for (const shift of [-size, 0, size]) {
      context.beginPath();
      context.moveTo(shift, size);
      context.lineTo(shift + size, 0);
      context.stroke();
    }
    return this.context.createPattern(tile, 'repeat');
  }

  top(stage) { return 4 + stage * (this.rowHeight + this.rowGap); }
  x(tick) { return this.left + ((tick - view.from) / view.length) * this.width; }
  tick(x) { return view.from + ((x - this.left) / this.width) * view.length; }
  /** In pixels of the device, on a whole one: edges are sharp and neighbours meet. */
  device(value) { return Math.round(value * this.ratio); }

  show(decoded, marker) {
    this.decoded = decoded;
    this.marker = marker;
    this.draw();
  }

  draw() {
    if (!this.decoded || !this.ratio) return;
    const context = this.context;
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    const longest = Math.max(...this.decoded.stages.map(stage => stage.start.length));
    const blockWidth = (this.width / longest) * (view.whole / view.length);
    const narrow = blockWidth < NARROW;
    context.save();
    context.beginPath();
    context.rect(this.device(this.left), 0, this.device(this.width), this.canvas.height);
    context.clip();
    this.decoded.stages.forEach((stage, s) => {
      if (narrow) this.drawColumns(stage, s);
      else this.drawBlocks(stage, s);
      if (narrow && blockWidth > NARROW / 2) this.drawBackwardEnds(stage, s);
    });
    this.drawMarkers();
    context.restore();
    this.drawLabels();
    if (this.hasAxis) this.drawAxis();
  }

  rectangle(from, to, s, style) {
    const left = this.device(Math.max(this.left, this.x(from)));
    const right = this.device(Math.min(this.left + this.width, this.x(to)));
    this.context.fillStyle = style;
    this.context.fillRect(left, this.device(this.top(s)), right - left, this.device(this.rowHeight));
    return [left, right];
  }

  drawBlocks(stage, s) {
    const context = this.context;
    if (this.decoded.end > view.from) this.rectangle(0, this.decoded.end, s, theme.fill(idleColours[s]));
    const top = this.device(this.top(s));
    const height = this.device(this.rowHeight);
    context.font = `${Math.round(10.5 * this.ratio)}px system-ui, sans-serif`;
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    for (let i = Math.max(0, lastAtMost(stage.start, view.from)); i < stage.start.length; i++) {
      if (stage.start[i] > view.to) break;
      const colour = modeColours[s][stage.mode[i]];
      const [left, right] = this.rectangle(stage.start[i], stage.end[i], s, theme.fill(colour));
      const width = right - left;
      if (stage.kinds[i] >= data.firstFixedKind) this.rectangle(stage.start[i], stage.end[i], s, this.hatch);
      if (width > 2 * this.ratio) this.drawEdges(stage.kinds[i], colour, left, top, width, height);
      if (width > 10 * this.ratio && this.rowHeight >= 14) {
        const text = label(stage, i);
        const room = width - 3 * this.ratio;
        const fitting = [text, text.replace(/^F(?=\d+$)/, '')].find(t => context.measureText(t).width < room);
        context.fillStyle = theme.text(colour);
        if (fitting) context.fillText(fitting, (left + right) / 2, top + height / 2 + 0.5 * this.ratio);
      }
    }
    for (const transfer of stage.transfers) {
      if (transfer.end > view.from && transfer.start < view.to) this.rectangle(transfer.start, transfer.end, s, this.hatch);
    }
  }

  /** Backward and the rest have the heavier edge; a forward has one where there is room. */
  drawEdges(kind, colour, left, top, width, height) {
    const context = this.context;
    const isForward = kind === FORWARD;
    const line = Math.max(1, Math.round(this.ratio * (isForward || width < 12 * this.ratio ? 0.75 : 1.25)));
    context.strokeStyle = context.fillStyle = theme.edge(colour);
    if (width > 9 * this.ratio) {
      context.globalAlpha = isForward ? 0.4 : 1;
      context.lineWidth = line;
      context.strokeRect(left + line / 2, top + line / 2, width - line, height - line);
      context.globalAlpha = 1;
    } else if (!isForward) {
      context.fillRect(left + width - line, top, line, height);
    }
  }

  /** What tells blocks apart that are drawn as columns. */
  drawBackwardEnds(stage, s) {
    const context = this.context;
    context.globalAlpha = 0.5;
    for (let i = Math.max(0, lastAtMost(stage.start, view.from)); i < stage.start.length; i++) {
      if (stage.start[i] > view.to) break;
      if (stage.kinds[i] === FORWARD) continue;
      context.fillStyle = theme.edge(modeColours[s][stage.mode[i]]);
      const right = this.device(this.x(stage.end[i]));
      context.fillRect(right - 1, this.device(this.top(s)), 1, this.device(this.rowHeight));
    }
    context.globalAlpha = 1;
  }

  /** Each column of pixels in the colour of its average power: no gap is lost or made wider. */
  drawColumns(stage, s) {
    const columns = this.device(this.width);
    const perColumn = view.length / columns;
    const watts = new Float64Array(columns);
    const covered = new Float64Array(columns);
    const spread = (start, end, power) => {
      const first = Math.max(0, Math.floor((start - view.from) / perColumn));
      const last = Math.min(columns - 1, Math.floor((end - view.from) / perColumn));
      for (let c = first; c <= last; c++) {
        const part = Math.min(end, view.from + (c + 1) * perColumn) - Math.max(start, view.from + c * perColumn);
        if (part > 0) {
          watts[c] += power * part;
          covered[c] += part;
        }
      }
    };
    let end = 0;
    for (let i = 0; i < stage.start.length && end < view.to; i++) {
      spread(end, stage.start[i], data.blockingPower[s]);
      end = stage.end[i];
      spread(stage.start[i], end, modes[s][stage.mode[i]].power);
    }
    spread(end, this.decoded.end, data.blockingPower[s]);
    const bytes = theme.powers.fills.map(bytesOf);
    const image = this.context.createImageData(columns, 1);
    for (let c = 0; c < columns; c++) {
      if (covered[c] === 0) continue;
      const [red, green, blue] = bytes[colourIndex(watts[c] / covered[c])];
      image.data.set([red, green, blue, 255], 4 * c);
    }
    this.stretch(image, s);
  }

  stretch(image, s) {
    this.strip = this.strip || document.createElement('canvas');
    this.strip.width = image.width;
    this.strip.height = 1;
    this.strip.getContext('2d').putImageData(image, 0, 0);
    this.context.imageSmoothingEnabled = false;
    this.context.drawImage(this.strip, this.device(this.left), this.device(this.top(s)), image.width, this.device(this.rowHeight));
  }

  /** Ends of iterations, and the block that has been selected by keyboard or pointer. */
  drawMarkers() {
    const context = this.context;
    const bottom = this.device(this.top(this.decoded.stages.length) - this.rowGap);
    context.fillStyle = theme.named('ink');
    const at = this.device(this.x(this.marker));
    for (let y = 0; y < bottom; y += this.device(6)) context.fillRect(at, y, Math.max(1, this.device(1)), this.device(3));
    if (this.selected) {
      const stage = this.decoded.stages[this.selected.stage];
      const left = this.device(this.x(stage.start[this.selected.index]));
      const right = this.device(this.x(stage.end[this.selected.index]));
      context.strokeStyle = theme.named('ours');
      context.lineWidth = this.device(2);
      context.strokeRect(left, this.device(this.top(this.selected.stage)), Math.max(1, right - left), this.device(this.rowHeight));
    }
  }

  drawLabels() {
    const context = this.context;
    context.font = `${Math.round(12 * this.ratio)}px system-ui, sans-serif`;
    context.fillStyle = theme.named('soft');
    context.textBaseline = 'middle';
    context.textAlign = 'right';
    const every = this.rowHeight >= 10 ? 1 : 8;
    this.decoded.stages.forEach((_, s) => {
      if (s % every) return;
      const text = this.narrow ? String(s) : `stage ${s}`;
      context.fillText(text, this.device(this.left - 8), this.device(this.top(s) + this.rowHeight / 2 + 0.5));
    });
  }

  drawAxis() {
    const context = this.context;
    const unit = timeUnit.divisor / data.tick;
    const marks = ticks(view.from / unit, view.to / unit, this.narrow ? 4 : 10);
    const base = this.top(this.decoded.stages.length) + 2;
    context.textBaseline = 'alphabetic';
    context.textAlign = 'center';
    const [axis, soft] = [theme.named('axis'), theme.named('soft')];
    marks.values.forEach((mark, i) => {
      const at = this.device(this.x(mark * unit));
      context.fillStyle = axis;
      context.fillRect(at, this.device(base), Math.max(1, this.device(0.75)), this.device(4));
      context.fillStyle = soft;
      const last = i === marks.values.length - 1;
      context.textAlign = i === 0 && mark === 0 && this.narrow ? 'left' : last ? 'right' : 'center';
      context.fillText(fixed(mark, marks.decimals) + (last ? ' ' + timeUnit.name : ''), last ? at + this.device(14) : at, this.device(base + 17));
    });
  }

  /** What lies at a place of the canvas: a stage and the index of its instruction, or -1 for none. */
  find(event) {
    const box = this.canvas.getBoundingClientRect();
    const s = Math.floor((event.clientY - box.top - 4) / (this.rowHeight + this.rowGap));
    const tick = this.tick(event.clientX - box.left);
    if (!(s >= 0 && s < this.decoded.stages.length) || tick < view.from || tick > view.to) return null;
    const stage = this.decoded.stages[s];
    const i = lastAtMost(stage.start, tick);
    const inside = i >= 0 && tick < stage.end[i];
    if (!inside && tick > this.decoded.end) return null;
    return {stage: s, index: inside ? i : -1, before: i, tick};
  }

  describe({stage: s, index, before, tick}) {
    const stage = this.decoded.stages[s];
    if (index < 0) {
      const transfer = stage.transfers.find(t => tick >= t.start && tick < t.end);
      const from = before >= 0 ? stage.end[before] : 0;
      const to = before + 1 < stage.start.length ? stage.start[before + 1] : this.decoded.end;
      const title = transfer ? `Stage ${s}: transfer from ${transfer.from} to ${transfer.to}` : `Stage ${s} waits`;
      const seconds = (transfer ? transfer.end - transfer.start : to - from) * data.tick;
      return [title, [['time', shortTime(seconds)], ['energy', shortEnergy(seconds * data.blockingPower[s])],
        ['power', `${fixed(data.blockingPower[s], 1)}${NBSP}W`]]];
    }
    const mode = modes[s][stage.mode[index]];
    const name = data.kinds[stage.kinds[index]].replace('_', ' + ');
    const rows = [];
    if (stage.microBatches[index] >= 0) {
      const second = stage.backwardMicroBatches && stage.backwardMicroBatches[index] >= 0 ? ` and ${stage.backwardMicroBatches[index]}` : '';
      rows.push(['micro-batch', stage.microBatches[index] + second]);
    }
    if (data.chunks > 1) rows.push(['chunk', stage.chunks ? stage.chunks[index] : 0]);
    if (mode.clock > 0) rows.push(['clock', `${mode.clock}${NBSP}MHz`]);
    if (mode.knobs) rows.push(['beside it', mode.knobs]);
    rows.push(['starts at', timeText(stage.start[index] * data.tick)], ['time', shortTime(mode.time)],
      ['energy per GPU', shortEnergy(mode.energy)], ['power', `${fixed(mode.power, 1)}${NBSP}W`]);
    return [`Stage ${s}: ${name}`, rows];
  }

  hover(event) {
    if (event.buttons && !view.isWhole) return;
    const found = this.decoded && this.find(event);
    if (!found) this.leave();
    else showTip(event, ...this.describe(found));
  }

  leave() {
    hideTip();
    if (this.selected) {
      this.selected = null;
      this.draw();
    }
  }

  /** Keyboard: step to a neighbouring instruction, or to the one at the same time on another stage. */
  step(deltaStage, deltaIndex) {
    const old = this.selected || {stage: 0, index: lastAtMost(this.decoded.stages[0].start, view.from) - deltaIndex};
    const s = Math.min(this.decoded.stages.length - 1, Math.max(0, old.stage + deltaStage));
    const stage = this.decoded.stages[s];
    const start = old.index >= 0 ? this.decoded.stages[old.stage].start[old.index] : 0;
    const index = deltaStage ? lastAtMost(stage.start, start) : old.index + deltaIndex;
    this.selected = {stage: s, index: Math.min(stage.start.length - 1, Math.max(0, index))};
    const at = stage.start[this.selected.index];
    if (at < view.from || at > view.to) view.set(at - view.length / 2, view.length);
    redraw();
    const box = this.canvas.getBoundingClientRect();
    showTip({pageX: box.left + window.scrollX + this.x(at), pageY: box.top + window.scrollY + this.top(s) + this.rowHeight},
      ...this.describe({...this.selected}));
  }
}

const shortTime = seconds => inUnit(seconds, pickUnit(seconds, [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs']]));
const shortEnergy = joules => inUnit(joules, pickUnit(joules, [[1e3, 'kJ'], [1, 'J'], [1e-3, 'mJ']]));
