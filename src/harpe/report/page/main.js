// Ties slider, chart, figures, pipelines and table together.

const SLIDER_STEPS = 100000;
const slider = document.getElementById('slider');
const reset = document.getElementById('reset');

/** Indices of the points whose plans can be drawn: where the slider stops. */
const stops = data.points.map((point, i) => (point.stages ? i : -1)).filter(i => i >= 0);
const allMaxPicture = new Pipeline(document.getElementById('all-max'), false);
const planPicture = new Pipeline(document.getElementById('plan'), true);
const pictures = [allMaxPicture, planPicture];
const rows = new Map([...document.querySelectorAll('#table tr[data-point]')].map(row => [Number(row.dataset.point), row]));
let currentStop = 0;
let pending = false;

function redraw() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => {
    pending = false;
    for (const picture of pictures) {
      picture.canvas.classList.toggle('zoomed', !view.isWhole);
      picture.draw();
    }
    markView();
  });
}

function nearestStop(index) {
  return stops.reduce((best, stop, i) => (Math.abs(stop - index) < Math.abs(stops[best] - index) ? i : best), 0);
}

function moveTo(index) {
  const stop = nearestStop(index);
  if (stop !== currentStop) select(stop);
}

/** Where a stop lies between the first and the last, by its time. */
function placeOf(stop) {
  const [first, at, last] = [stops[0], stops[stop], stops[stops.length - 1]].map(i => data.points[i].time);
  return last > first ? (at - first) / (last - first) : 0;
}

function dragSlider() {
  const place = slider.value / SLIDER_STEPS;
  select(stops.reduce((best, _, stop) => (Math.abs(placeOf(stop) - place) < Math.abs(placeOf(best) - place) ? stop : best), 0));
}

/** Keys move from stop to stop, however far they lie from each other. */
function keySlider(event) {
  const last = stops.length - 1;
  const far = Math.max(1, Math.round(stops.length / 10));
  const moves = {ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -far, PageUp: far, Home: -last, End: last};
  if (!(event.key in moves) || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  select(Math.min(last, Math.max(0, currentStop + moves[event.key])));
}

function select(stop, keepAddress) {
  currentStop = stop;
  const index = stops[stop];
  const point = data.points[index];
  slider.value = Math.round(SLIDER_STEPS * placeOf(stop));
  slider.setAttribute('aria-valuetext', `${timeText(point.time)}, ${energyText(point.energy)}. ${point.headline}`);
  document.getElementById('headline').textContent = point.headline;
  document.getElementById('explanation').textContent = point.explanation;
  reset.hidden = index === data.chosen;
  chart.select(point);
  showFigures(point);
  showCaptions(point);
  planPicture.selected = null;
  const marker = allMaxFor(point).time / data.tick;
  const decoded = decode(point);
  planPicture.show(decoded, marker);
  clocks.draw(decoded);
  if (data.allMaxAlone) allMaxPicture.show(decode(data.allMax), marker);
  for (const [i, row] of rows) {
    if (i === index) row.setAttribute('aria-current', 'true');
    else row.removeAttribute('aria-current');
  }
  if (!keepAddress) history.replaceState(null, '', '#' + index);
}

function showFigures(point) {
  const base = allMaxFor(point);
  const body = document.querySelector('#figures tbody');
  const fastest = data.points[0];
  const above = (energy, bound) => (bound > 0 ? fixed(100 * (energy / bound - 1), 3) + NBSP + '%' : '');
  const perGpu = plan => plan.energy / plan.time / data.gpus;
  const watts = value => `${fixed(value, 1)}${NBSP}W`;
  const share = value => `${fixed(100 * value, 1)}${NBSP}%`;
  const change = (a, b) => (b !== 0 ? changeText(a / b - 1) : '');
  const lines = [
    ['iteration time', timeText(base.time), timeText(point.time), changeText(point.time / base.time - 1, 2)],
    ['against the fastest', '', '', changeText(point.time / fastest.time - 1, 2)],
    ['iteration energy', energyText(base.energy), energyText(point.energy), change(point.energy, base.energy)],
    ['of it waiting', energyText(base.blocking), energyText(point.blocking), change(point.blocking, base.blocking)],
    ['GPU time waiting', share(base.waiting), share(point.waiting), ''],
    ['power per GPU', watts(perGpu(base)), watts(perGpu(point)), change(perGpu(point), perGpu(base))],
    ['above the bound', above(base.energy, chart.bestBoundOf(base)), above(point.energy, chart.bestBoundOf(point)), ''],
    ['clock changes', String(base.changes), String(point.changes), ''],
  ];
  body.replaceChildren(...lines.map(([name, ...cells]) => {
    const row = document.createElement('tr');
    const head = document.createElement('th');
    head.scope = 'row';
    head.textContent = name;
    row.append(head, ...cells.map((text, i) => {
      const cell = document.createElement('td');
      cell.textContent = text;
      if (i === 1) cell.className = 'ours';
      return cell;
    }));
    return row;
  }));
}

function showCaptions(point) {
  const base = allMaxFor(point);
  const caption = plan => `${timeText(plan.time)}, ${energyText(plan.energy)}`;
  document.getElementById('caption-all-max').textContent = `${caption(base)} (dotted line: where it ends)`;
  document.getElementById('caption-plan').textContent = `${caption(point)}, ${changeText(point.energy / base.energy - 1)} energy`;
}

function paintLegend() {
  document.getElementById('gradient').style.background = `linear-gradient(to right, ${theme.powers.fills.join(',')})`;
}

function makeLegend() {
  const {low, high} = data.power;
  const marks = ticks(low, high, 4);
  document.getElementById('watts').append(...marks.values.map(mark => {
    const text = document.createElement('span');
    text.textContent = fixed(mark, marks.decimals);
    text.style.left = `${(100 * (mark - low)) / (high - low)}%`;
    return text;
  }));
}

// Parts of the iteration, where the whole is too dense to read its blocks.
const views = [];

function makeViews() {
  const longest = Math.max(...data.shapes[data.allMax.shape].stages.map(stage => stage.kinds.length));
  const length = () => Math.min(view.whole, (view.whole * planPicture.width) / (longest * 34));
  const end = () => Math.max(data.allMax.time, data.points[stops[currentStop]].time) / data.tick;
  const choices = [
    ['Whole', () => view.set(0, view.whole)],
    ['Start', () => view.set(0, length())],
    ['Middle', () => view.set((end() - length()) / 2, length())],
    ['End', () => view.set(end() - 0.97 * length(), length())],
  ];
  const needed = length() < 0.8 * view.whole;
  document.getElementById('pan-hint').hidden = !needed;
  if (!needed) return;
  for (const [name, act] of choices) {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = name;
    button.addEventListener('click', () => {
      act();
      view.named = {name, from: view.from, to: view.to};
      redraw();
    });
    views.push({name, button});
    document.getElementById('views').append(button);
  }
  // Blocks of half that width are a wall.
  if (length() < view.whole / 2) views.find(each => each.name === 'Start').button.click();
  markView();
}

/** A button stays pressed as long as its view has not been moved. */
function markView() {
  const isNamed = view.named && view.named.from === view.from && view.named.to === view.to;
  for (const {name, button} of views) {
    const pressed = view.isWhole ? name === 'Whole' : isNamed && name === view.named.name;
    button.setAttribute('aria-pressed', String(pressed));
  }
}

function zoom(picture, clientX, factor) {
  const at = picture.tick(clientX - picture.canvas.getBoundingClientRect().left);
  const length = Math.min(view.whole, Math.max(view.whole / 5000, view.length * factor));
  view.set(Math.max(0, at - ((at - view.from) * length) / view.length), length);
  redraw();
}

function listen(picture) {
  const canvas = picture.canvas;
  let grip = null;
  canvas.addEventListener('pointerdown', event => {
    if (view.isWhole || event.pointerType === 'mouse' && event.button !== 0) return;
    grip = {x: event.clientX, from: view.from};
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', event => {
    if (!grip) return;
    hideTip();
    view.set(Math.max(0, grip.from - ((event.clientX - grip.x) / picture.width) * view.length), view.length);
    redraw();
  });
  for (const name of ['pointerup', 'pointercancel']) canvas.addEventListener(name, () => { grip = null; });
  canvas.addEventListener('dblclick', event => zoom(picture, event.clientX, event.shiftKey ? 3 : 1 / 3));
  canvas.addEventListener('wheel', event => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(picture, event.clientX, Math.exp(event.deltaY / 200));
  }, {passive: false});
  canvas.addEventListener('blur', () => picture.leave());
  canvas.addEventListener('keydown', event => {
    const middle = canvas.getBoundingClientRect().left + picture.left + picture.width / 2;
    const actions = {
      ArrowLeft: () => picture.step(0, -1),
      ArrowRight: () => picture.step(0, 1),
      ArrowUp: () => picture.step(-1, 0),
      ArrowDown: () => picture.step(1, 0),
      '+': () => zoom(picture, middle, 0.5),
      '-': () => zoom(picture, middle, 2),
      0: () => { view.set(0, view.whole); redraw(); },
    };
    if (!(event.key in actions) || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    actions[event.key]();
  });
}

async function copyTable() {
  const text = [...document.querySelectorAll('#table tr')]
    .map(row => [...row.cells].map(cell => cell.textContent).join('\t'))
    .join('\n') + '\n';
  const status = document.getElementById('copied');
  try {
    await navigator.clipboard.writeText(text);
    status.textContent = 'Copied.';
  } catch {
    getSelection().selectAllChildren(document.getElementById('table'));
    status.textContent = document.execCommand('copy') ? 'Copied.' : 'Selected: copy it with the keyboard.';
  }
}

function layout(print = 1) {
  paintLegend();
  chart.draw();
  for (const picture of pictures) picture.layout(print);
  const point = data.points[stops[currentStop]];
  chart.select(point);
  clocks.draw(decode(point));
  for (const picture of pictures) picture.draw();
}

/** True of the address of a plan; others are of words. */
const isPlan = hash => /^#\d+$/.test(hash);

function stopFromAddress() {
  const index = isPlan(location.hash) ? Number(location.hash.slice(1)) : data.chosen;
  return nearestStop(Math.min(index, data.points.length - 1));
}

slider.max = SLIDER_STEPS;
slider.addEventListener('input', dragSlider);
slider.addEventListener('keydown', keySlider);
reset.addEventListener('click', () => moveTo(data.chosen));
document.getElementById('copy').addEventListener('click', copyTable);
for (const [index, row] of rows) row.addEventListener('click', () => { if (getSelection().isCollapsed) moveTo(index); });
window.addEventListener('hashchange', () => { if (isPlan(location.hash)) select(stopFromAddress(), true); });
window.addEventListener('resize', () => layout());
function setPrinting(isPrinting) {
  theme.isPrinting = isPrinting;
  layout(isPrinting ? 3 : 1);
}
window.addEventListener('beforeprint', () => setPrinting(true));
window.addEventListener('afterprint', () => setPrinting(false));
theme.dark.addEventListener('change', () => layout());
for (const picture of pictures) listen(picture);
makeLegend();
currentStop = stopFromAddress();
layout();
makeViews();
allMaxPicture.show(decode(data.allMax), data.allMax.time / data.tick);
select(currentStop, true);
