// The figures of the page: a heading, choices, a chart, and a legend of check boxes, which the
// keyboard reaches as well as the mouse.
function element(tag, properties, ...children) {
  const made = document.createElement(tag);
  Object.assign(made, properties);
  made.append(...children);
  return made;
}

function drawn(tag, attributes) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

const prefersDark = window.matchMedia('(prefers-color-scheme: dark)');
let printing = false;

function theme() {
  const dark = prefersDark.matches && !printing;
  return dark ?
      {dark, ground: '#15181c', ink: '#e6e9ed', soft: '#a0a9b4', line: '#363d46', fill: 'rgba(120,160,200,0.25)'} :
      {dark, ground: '#ffffff', ink: '#1b1f24', soft: '#59616b', line: '#d5dae0', fill: 'rgba(0,80,140,0.12)'};
}

// A line with its dashes and its mark, as in the chart.
function swatch(look, colours) {
  const dash = dashOf(look), style = markStyle(look, colours);
  const picture = drawn('svg', {width: 30, height: 14, 'aria-hidden': 'true'});
  picture.append(
      drawn('line', {x1: 0, x2: 30, y1: 7, y2: 7, stroke: colourOf(look, colours), 'stroke-width': 2,
        'stroke-dasharray': Array.isArray(dash) ? dash.join(' ') : 'none'}),
      drawn('path', {d: SHAPES[look.symbol], transform: 'translate(10 2)', fill: style.color,
        stroke: style.borderColor || 'none', 'stroke-width': 1.5}));
  return picture;
}

class Chart {
  // spec: {id, title, words, zooms, tall, unchecked, choices: [{name, options() -> [[value, text]]}],
  //        legend(values) -> [[key, name, look]], option(theme, values, hidden, size)}
  constructor(spec) {
    this.spec = spec;
    this.hidden = new Set(spec.unchecked);
    this.selects = spec.choices.map((choice) => element('select', {onchange: () => this.chosen()}));
    this.controls = element('div', {className: 'controls'}, ...spec.choices.map((choice, i) =>
        element('label', {}, choice.name + ' ', this.selects[i])));
    this.plot = element('div', {className: spec.tall ? 'plot tall' : 'plot', tabIndex: 0,
      onkeydown: (event) => this.key(event)});
    this.plot.setAttribute('role', 'img');
    this.plot.setAttribute('aria-label', spec.title + '. The figures are in the tables below.');
    this.legend = element('div', {className: 'legend'});
    this.legend.setAttribute('role', 'group');
    this.legend.setAttribute('aria-label', 'What is drawn');
    if (spec.zooms) this.addZoom();
    const figure = element('figure', {className: 'chart', id: spec.id},
        element('figcaption', {}, element('p', {}, spec.words)));
    if (this.controls.childNodes.length > 0) figure.append(this.controls);
    figure.append(this.plot, this.legend);
    this.fold = element('details', {ontoggle: () => this.unfold()},
        element('summary', {}, element('h2', {}, spec.title)), figure);
    document.getElementById('charts').append(this.fold);
  }

  // Draws it: while it is folded it has no size.
  unfold() {
    if (!this.fold.open) return;
    if (this.chart) return this.fit();
    this.chart = echarts.init(this.plot, null, {renderer: 'svg'});
    this.fillSelects();
    this.draw(true);
  }

  values() {
    return this.selects.map((select) => select.value);
  }

  // What the later choices offer depends on the earlier ones.
  fillSelects() {
    this.spec.choices.forEach((choice, i) => {
      const select = this.selects[i], before = select.value;
      const options = choice.options(this.values());
      select.replaceChildren(...options.map(([value, text]) =>
          element('option', {value}, shortened(text, 60))));
      if (options.some(([value]) => value === before)) select.value = before;
      select.parentNode.hidden = options.length < 2;
    });
  }

  chosen() {
    this.fillSelects();
    this.draw(true);
  }

  addZoom() {
    const button = (text, label, factor, shift) => {
      const made = element('button', {type: 'button', onclick: () => this.zoom(factor, shift)}, text);
      made.setAttribute('aria-label', label);
      made.title = label;
      return made;
    };
    this.controls.append(element('span', {}, button('+', 'Zoom in', 0.5, 0), ' ',
        button('−', 'Zoom out', 2, 0), ' ', button('‹', 'Earlier', 1, -0.25), ' ',
        button('›', 'Later', 1, 0.25), ' ', button('All', 'The whole run', 1000, 0)),
    element('span', {className: 'hint'}, 'or drag the bar below the chart, or in it + − ← → 0'));
  }

  // Shows `factor` of the time that is shown, moved by `shift` of it.
  zoom(factor, shift) {
    const {start, end} = this.chart.getOption().dataZoom[0];
    const length = Math.min(100, Math.max(0.1, (end - start) * factor));
    const middle = (start + end) / 2 + shift * (end - start);
    const from = Math.min(100 - length, Math.max(0, middle - length / 2));
    this.chart.dispatchAction({type: 'dataZoom', start: from, end: from + length});
  }

  key(event) {
    const step = {'+': [0.5, 0], '-': [2, 0], '0': [1000, 0], ArrowLeft: [1, -0.25],
      ArrowRight: [1, 0.25]}[event.key];
    if (!this.spec.zooms || !step || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    this.zoom(...step);
  }

  draw(anew) {
    const colours = theme();
    const option = this.spec.option(colours, this.values(), this.hidden,
        {width: this.chart.getWidth(), height: this.chart.getHeight()});
    const zoom = !anew && option.dataZoom && (this.chart.getOption().dataZoom || [])[0];
    if (zoom) option.dataZoom.forEach((one) => Object.assign(one, {start: zoom.start, end: zoom.end}));
    option.textStyle = {fontFamily: getComputedStyle(document.body).fontFamily};
    this.chart.setOption(option, {notMerge: true});
    this.drawLegend(colours);
  }

  drawLegend(colours) {
    const focused = this.legend.contains(document.activeElement) && document.activeElement.value;
    this.legend.replaceChildren(...this.spec.legend(this.values()).map(([key, name, look]) => {
      const box = element('input', {type: 'checkbox', value: key, checked: !this.hidden.has(key),
        onchange: () => this.toggle(key)});
      return element('label', {}, box, swatch(look, colours), element('span', {}, name));
    }));
    for (const box of this.legend.querySelectorAll('input')) {
      if (box.value === focused) box.focus();
    }
  }

  toggle(key) {
    if (!this.hidden.delete(key)) this.hidden.add(key);
    this.draw(false);
  }

  fit(width) {
    if (!this.chart || !this.fold.open) return;
    this.chart.resize(width ? {width} : undefined);
    this.draw(false);
  }
}

const legendOf = (indices) => Array.from(new Set(indices)).sort((a, b) => a - b)
    .map((index) => ['c' + index, study.configurations[index].label, study.configurations[index]]);
const legendOfMeasures = (keys) => study.measures.filter((measure) => keys.includes(measure.key))
    .map((measure) => ['m' + measure.key, measure.key, measure]);

// How to look at something: one measure of all configurations, or all measures of one.
const comparisons = (keys) => keys.map((key) => ['measure:' + key, 'all configurations: ' + key]);
const singles = (indices) => indices.map((index) =>
    ['configuration:' + index, 'only ' + study.configurations[index].label]);

function memoryViews(indices) {
  return (indices.length > 1 ? comparisons(knownKeys()) : []).concat(singles(indices));
}

// First the one that is pinned without a cap: what rdmalloc does when it is let.
function phaseViews() {
  const isMain = (index) => study.configurations[index].pinned && !known(study.configurations[index].cap);
  const indices = phaseConfigurations();
  const sorted = indices.filter(isMain).concat(indices.filter((index) => !isMain(index)));
  return singles(sorted).concat(indices.length > 1 ? comparisons(PHASE_MEASURES) : []);
}

const knownKeys = () => study.measures.map((measure) => measure.key)
    .filter((key) => study.series.some((series) => series[key]));

function runsToChoose([view]) {
  const [kind, what] = view.split(':');
  const count = new Set(study.series.map((series) => series.repeat)).size;
  if (count < 2) return [['shown', 'the only one']];
  const all = [['shown', 'the one with the median time'], ['all', 'all']];
  if (kind === 'measure') return all;
  return all.concat(study.series.filter((series) => series.configuration === Number(what))
      .map((series) => [String(series.repeat), 'number ' + series.repeat]));
}

function memoryLegend([view]) {
  const [kind, what] = view.split(':');
  if (kind === 'measure') {
    return legendOf(study.series.filter((series) => series[what]).map((series) => series.configuration));
  }
  const mine = study.series.filter((series) => series.configuration === Number(what));
  return legendOfMeasures(knownKeys().filter((key) => mine.some((series) => series[key])));
}

function thinningWords() {
  const thinned = study.series.filter((series) => series.samples > series.seconds.length);
  if (thinned.length === 0) return '';
  return ' Long runs are thinned for display; no peak is left out, and samples.csv has every sample.';
}

// Caps change little of a curve: they are drawn when asked for, unless there are few curves.
function uncheckedOf(indices) {
  const caps = indices.filter((index) => known(study.configurations[index].cap));
  return indices.length > 6 && caps.length < indices.length ? caps.map((index) => 'c' + index) : [];
}

function specs() {
  const sampled = Array.from(new Set(study.series.map((series) => series.configuration)));
  return [
    {id: 'memory', title: 'Memory over time', present: sampled.length > 0, zooms: true,
      words: 'Sampled while the program ran.' + thinningWords(), unchecked: uncheckedOf(sampled),
      choices: [{name: 'Show', options: () => memoryViews(sampled)},
        {name: 'Run', options: runsToChoose}],
      legend: memoryLegend,
      option: (colours, [view, run], hidden) => memoryOption(colours, view, run, hidden)},
    {id: 'tradeoff', title: 'Peak against time', tall: true,
      present: tradeOffMedians(new Set()).length > 0,
      words: 'Small marks are runs, large ones medians. On the dashed line (Pareto) are the medians ' +
          'that no other configuration beats in both. The axes need not begin at 0.',
      choices: [], legend: () => legendOf(tradeOffMedians(new Set()).map((row) => row.configuration)),
      option: (colours, values, hidden, size) => tradeOffOption(colours, hidden, size)},
    {id: 'ratio', title: 'Held by live memory over time', present: ratioSeries().length > 0, zooms: true,
      words: 'What the allocator holds for each byte that the program uses, where the program uses ' +
          'at least a hundredth of its peak. 1 would be no waste.',
      choices: [], legend: () => legendOf(ratioSeries().map((series) => series.configuration)),
      option: (colours, values, hidden) => ratioOption(colours, hidden)},
    {id: 'cap', title: 'What the cap cost', tall: true, present: capped().length > 0,
      words: 'Time, and memory for which the cap had no room and which so was not pinned, by cap: ' +
          'medians, and the time of each run.',
      choices: [], legend: () => legendOf(capped().map((row) => row.configuration)),
      option: (colours, values, hidden) => capOption(colours, hidden)},
    {id: 'phases', title: 'Peaks by phase', present: phaseConfigurations().length > 0,
      words: 'The highest while the program was in a phase that it named (rdm_phase): medians.',
      choices: [{name: 'Show', options: phaseViews}],
      legend: ([view]) => view.startsWith('measure') ? legendOf(phaseConfigurations()) :
          legendOfMeasures(PHASE_MEASURES),
      option: (colours, [view], hidden) => phaseOption(colours, view, hidden)},
  ];
}

const charts = specs().filter((spec) => spec.present).map((spec) => new Chart(spec));
let waiting = 0;
window.addEventListener('resize', () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => charts.forEach((chart) => chart.fit()), 100);
});
prefersDark.addEventListener('change', () => charts.forEach((chart) => chart.fit()));
// Paper has everything unfolded, is white, and as wide as A4 between its margins.
let folded = [];
window.addEventListener('beforeprint', () => {
  printing = true;
  folded = Array.from(document.querySelectorAll('main details:not([open])'));
  folded.forEach((one) => { one.open = true; });
  charts.forEach((chart) => chart.unfold());
  charts.forEach((chart) => chart.fit(680));
});
window.addEventListener('afterprint', () => {
  printing = false;
  charts.forEach((chart) => chart.fit());
  folded.forEach((one) => { one.open = false; });
});
