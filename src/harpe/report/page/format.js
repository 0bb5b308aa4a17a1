// Numbers as people read them.

const NBSP = '\u00a0';
const MINUS = '\u2212';

const energyUnit = pickUnit(data.allMax.energy, [[1e9, 'GJ'], [1e6, 'MJ'], [1e3, 'kJ'], [1, 'J'], [1e-3, 'mJ']]);
const timeUnit = pickUnit(data.allMax.time, [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs']]);

function pickUnit(size, units) {
  const [divisor, name] = units.find(([d]) => Math.abs(size) >= d) || units[units.length - 1];
  return {divisor, name};
}

function fixed(value, decimals) {
  const text = Math.abs(value).toFixed(decimals);
  return (value < 0 && Number(text) !== 0 ? MINUS : '') + text;
}

/** The decimals that show about five significant digits of a value in its unit. */
function decimalsFor(value, unit) {
  const size = Math.abs(value / unit.divisor);
  return size >= 1000 ? 1 : size >= 100 ? 2 : size >= 10 ? 3 : 4;
}

function inUnit(value, unit, like = value) {
  return fixed(value / unit.divisor, decimalsFor(like, unit)) + NBSP + unit.name;
}

// Times and energies of iterations: in one unit and with the decimals of all-max, to compare.
const energyText = joules => inUnit(joules, energyUnit, data.allMax.energy);
const timeText = seconds => inUnit(seconds, timeUnit, data.allMax.time);

/** The all-max that a plan is compared with: one that waits for a straggler if the plan does. */
const allMaxFor = point => (data.allMaxAlone && point.time < data.allMax.time ? data.allMaxAlone : data.allMax);

/** A change in percent, always with its sign. */
function changeText(fraction, decimals = 1) {
  const text = fixed(100 * fraction, decimals);
  const sign = Number(text.replace(MINUS, '-')) > 0 ? '+' : '';
  return sign + text + NBSP + '%';
}

/** Round values between low and high, about `count` of them, and the decimals they need. */
function ticks(low, high, count) {
  if (!(high > low)) return {values: [low], decimals: 3};
  const rough = (high - low) / Math.max(1, count);
  const magnitude = 10 ** Math.floor(Math.log10(rough));
  const fraction = rough / magnitude;
  const step = magnitude * (fraction <= 1 ? 1 : fraction <= 2 ? 2 : fraction <= 5 ? 5 : 10);
  const values = [];
  for (let i = Math.ceil(low / step - 1e-9); i <= Math.floor(high / step + 1e-9); i++) values.push(i * step);
  return {values, decimals: Math.max(0, -Math.floor(Math.log10(step) + 1e-9))};
}

function element(name, attributes, content, parent) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (content !== undefined && content !== null) made.textContent = content;
  if (parent) parent.append(made);
  return made;
}

// One tip for chart and pipelines: a bold line, then rows of name and value.
const tip = document.getElementById('tip');

function showTip(event, title, rows) {
  const bold = document.createElement('b');
  bold.textContent = title;
  tip.replaceChildren(bold);
  for (const [name, value] of rows) {
    const row = document.createElement('div');
    for (const text of [name, value]) {
      const cell = document.createElement('span');
      cell.textContent = text;
      row.append(cell);
    }
    tip.append(row);
  }
  tip.hidden = false;
  const width = tip.offsetWidth;
  const left = event.pageX + 16 + width > document.documentElement.clientWidth ? event.pageX - width - 12 : event.pageX + 16;
  tip.style.left = Math.max(4, left) + 'px';
  tip.style.top = event.pageY + 14 + 'px';
}

function hideTip() {
  tip.hidden = true;
}
