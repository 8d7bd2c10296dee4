// Charts of whole runs.
const looksOf = (configurations) => configurations.map((index) => study.configurations[index]);

// Ends of an axis that need not begin at 0: so that a difference is seen, and noise does not fill
// the chart.
function ends(values) {
  const low = Math.min(...values), high = Math.max(...values);
  const room = Math.max((high - low) * 0.18, high * 0.04, 1e-4);
  return {min: Math.max(0, low - room), max: high + room};
}

// Numbers at ticks only: the ends of such an axis are not round.
const between = (theme) => axisLabels(theme, {showMinLabel: false, showMaxLabel: false});

// Where the label of each median has room: beside or above its mark, over no other mark or label;
// else nowhere, because the legend names it, too. `marks`: [{x, y, text}] in pixels.
function placeLabels(marks, width) {
  const taken = marks.map(({x, y}) => [x - 9, y - 9, x + 9, y + 9]);
  const free = (box, own) => box[0] >= 0 && box[2] <= width && taken.every((other, i) => i === own ||
      box[2] < other[0] || box[0] > other[2] || box[3] < other[1] || box[1] > other[3]);
  return marks.map(({x, y, text}, i) => {
    const long = Array.from(text).length * 6.8;
    const boxes = {right: [x + 12, y - 8, x + 12 + long, y + 8], left: [x - 12 - long, y - 8, x - 12, y + 8],
      top: [x - long / 2, y - 26, x + long / 2, y - 10], bottom: [x - long / 2, y + 10, x + long / 2, y + 26]};
    const position = Object.keys(boxes).find((name) => free(boxes[name], i));
    if (position) taken.push(boxes[position]);
    return position;
  });
}

function placedLabels(medians, place, x, y, size) {
  const width = size.width - 90, height = size.height - 90;
  return placeLabels(medians.map((row) => {
    const [right, up] = place(row);
    return {x: (right - x.min) / (x.max - x.min) * width, y: (y.max - up) / (y.max - y.min) * height,
      text: shortened(study.configurations[row.configuration].label, LABEL_LETTERS)};
  }), width);
}

const LABEL_LETTERS = 46;

function tradeOffRuns(hidden) {
  return study.runs.filter((run) => run.ok && known(run.seconds) && known(run.peak) &&
      !hidden.has('c' + run.configuration));
}

function tradeOffMedians(hidden) {
  return study.medians.filter((row) => known(row.seconds) && known(row.peak) &&
      !hidden.has('c' + row.configuration));
}

function markOf(theme, index, size, extra) {
  const look = study.configurations[index];
  return Object.assign({symbol: symbolOf(look), symbolSize: size, itemStyle: markStyle(look, theme)},
      extra);
}

function tradeOffOption(theme, hidden, size) {
  const runs = tradeOffRuns(hidden), medians = tradeOffMedians(hidden);
  const all = runs.concat(medians);
  if (all.length === 0) return base(theme, {title: nothingChosen(theme)});
  const unit = unitFor(Math.max(...all.map((one) => one.peak)));
  const place = (one) => [one.seconds, one.peak / unit.bytes];
  const x = ends(all.map((one) => one.seconds)), y = ends(all.map((one) => one.peak / unit.bytes));
  const positions = placedLabels(medians, place, x, y, size);
  const pareto = medians.filter((row) => row.pareto).sort((a, b) => a.seconds - b.seconds);
  const words = (one, kind) => tip(study.configurations[one.configuration].label, [
    [null, kind, ''], [null, 'time', one.seconds.toFixed(3) + ' s'],
    [null, 'peak resident', digits(one.peak / unit.bytes) + ' ' + unit.name]]);
  return base(theme, {
    xAxis: across(theme, 'time, seconds', Object.assign(x, {axisLabel: between(theme)})),
    yAxis: upright(theme, 'peak resident, ' + unit.name,
        Object.assign(y, {axisLabel: between(theme)})),
    tooltip: Object.assign(base(theme).tooltip, {trigger: 'item',
      formatter: (at) => at.data.one ? words(at.data.one, at.data.kind) : ''}),
    series: [
      {type: 'line', step: 'end', data: pareto.map(place), silent: true, symbol: 'none', z: 1,
        lineStyle: {color: theme.soft, width: 1.5, type: [6, 4]}},
      {type: 'scatter', z: 2, data: runs.map((run) => markOf(theme, run.configuration, 6,
          {value: place(run), one: run, kind: 'run ' + run.repeat}))},
      {type: 'scatter', z: 3, itemStyle: {opacity: 1}, data: medians.map((row, i) =>
          markOf(theme, row.configuration, 15, {value: place(row), one: row,
            kind: row.pareto ? 'median, on the Pareto line' : 'median',
            label: {show: Boolean(positions[i]), position: positions[i]}})),
        label: {color: theme.ink, fontSize: 12, distance: 6, textBorderColor: theme.ground,
          textBorderWidth: 3, formatter: (at) =>
            shortened(study.configurations[at.data.one.configuration].label, LABEL_LETTERS)}},
    ],
  });
}

function nothingChosen(theme) {
  return {text: 'nothing is chosen', left: 'center', top: 'middle',
    textStyle: {color: theme.soft, fontSize: 14, fontWeight: 'normal'}};
}

// Capped configurations, and the one without cap that each kind (pinned or not) is compared with.
function capped() {
  return study.medians.filter((row) => known(study.configurations[row.configuration].cap) &&
      known(row.seconds));
}

function uncapped() {
  const kinds = new Set(capped().map((row) => study.configurations[row.configuration].pinned));
  return study.medians.filter((row) => {
    const configuration = study.configurations[row.configuration];
    return !known(configuration.cap) && known(row.seconds) && kinds.has(configuration.pinned) &&
        configuration.allocator === 'rdmalloc';
  });
}

// The medians of the caps, each with its own mark.
function capLine(theme, axis, rows, place, markLine) {
  return {type: 'line', xAxisIndex: axis, yAxisIndex: axis, markLine,
    lineStyle: {color: theme.soft, width: 1.5},
    data: rows.map((row) => markOf(theme, row.configuration, 12, {value: place(row), row}))};
}

function capOption(theme, hidden) {
  const rows = capped().filter((row) => !hidden.has('c' + row.configuration));
  if (rows.length === 0) return base(theme, {title: nothingChosen(theme)});
  const caps = rows.map((row) => study.configurations[row.configuration].cap);
  const unit = unitFor(Math.max(...caps, ...rows.map((row) => row.overflow || 0)));
  const at = (row) => study.configurations[row.configuration].cap / unit.bytes;
  const runs = study.runs.filter((run) => run.ok && known(run.seconds) &&
      rows.some((row) => row.configuration === run.configuration));
  const x = ends(caps.map((cap) => cap / unit.bytes));
  const most = Math.max(...runs.concat(rows, uncapped()).map((one) => one.seconds));
  const words = (row) => tip(study.configurations[row.configuration].label, [
    [null, 'time', row.seconds.toFixed(3) + ' s'],
    [null, 'peak overflow', known(row.overflow) ? digits(row.overflow / unit.bytes) + ' ' + unit.name
        : 'not known']]);
  const references = uncapped().map((row) => ({yAxis: row.seconds,
    name: 'without a cap' + (uncapped().length > 1 ?
        (study.configurations[row.configuration].pinned ? ', pinned' : ', unpinned') : '')}));
  const smallest = known(study.smallest_cap) ? [{xAxis: study.smallest_cap / unit.bytes,
    name: 'smallest cap without loss', label: {position: 'end'}}] : [];
  const line = (data) => ({silent: true, symbol: 'none', data,
    lineStyle: {color: theme.soft, type: [6, 4], width: 1.5},
    label: {color: theme.ink, formatter: (mark) => mark.name, position: 'insideEndTop',
      textBorderColor: theme.ground, textBorderWidth: 3}});
  const sorted = rows.slice().sort((a, b) => at(a) - at(b));
  return base(theme, {
    grid: [{left: 12, right: 24, top: 36, height: '38%', containLabel: true},
      {left: 12, right: 24, top: '56%', bottom: 36, containLabel: true}],
    xAxis: [across(theme, '', Object.assign({gridIndex: 0}, x, {axisLabel: between(theme)})),
      across(theme, 'cap, ' + unit.name,
          Object.assign({gridIndex: 1}, x, {axisLabel: between(theme)}))],
    yAxis: [upright(theme, 'time, seconds', {gridIndex: 0, min: 0, max: most * 1.15,
      axisLabel: axisLabels(theme, {showMaxLabel: false})}),
      upright(theme, 'peak overflow, ' + unit.name, {gridIndex: 1, min: 0})],
    tooltip: Object.assign(base(theme).tooltip, {trigger: 'item',
      formatter: (mark) => mark.data.row ? words(mark.data.row) : ''}),
    series: [
      {type: 'scatter', xAxisIndex: 0, yAxisIndex: 0, silent: true, data: runs.map((run) =>
          markOf(theme, run.configuration, 6, {value: [at(run), run.seconds]}))},
      capLine(theme, 0, sorted, (row) => [at(row), row.seconds], line(references.concat(smallest))),
      capLine(theme, 1, sorted.filter((row) => known(row.overflow)),
          (row) => [at(row), row.overflow / unit.bytes],
          line(smallest.map((mark) => ({xAxis: mark.xAxis, name: ''})))),
    ],
  });
}

const PHASE_MEASURES = ['live', 'held', 'pinned'];

function phaseNames() {
  const names = new Set();
  study.runs.forEach((run) => run.phases.forEach((phase) => names.add(phase.name)));
  return Array.from(names);
}

function phaseConfigurations() {
  const found = new Set();
  study.runs.forEach((run) => run.phases.length > 0 && run.ok && found.add(run.configuration));
  return Array.from(found).sort((a, b) => a - b);
}

function phasePeak(configuration, name, key) {
  return median(study.runs.filter((run) => run.ok && run.configuration === configuration)
      .flatMap((run) => run.phases.filter((phase) => phase.name === name).map((phase) => phase[key])));
}

function phaseOption(theme, choice, hidden) {
  const [kind, what] = choice.split(':');
  const names = phaseNames();
  const bars = kind === 'configuration' ?
      PHASE_MEASURES.filter((key) => !hidden.has('m' + key)).map((key) => ({
        look: study.measures.find((measure) => measure.key === key), name: key,
        values: names.map((name) => phasePeak(Number(what), name, key))})) :
      phaseConfigurations().filter((index) => !hidden.has('c' + index)).map((index) => ({
        look: study.configurations[index], name: study.configurations[index].label,
        values: names.map((name) => phasePeak(index, name, what))}));
  const unit = unitFor(Math.max(0, ...bars.flatMap((bar) => bar.values)));
  return base(theme, {
    xAxis: across(theme, 'phase', {type: 'category', data: names, axisLabel:
      {color: theme.ink, fontSize: 12, hideOverlap: true, formatter: (name) => shortened(name, 18)}}),
    yAxis: upright(theme, 'peak in the phase, ' + unit.name, {min: 0}),
    tooltip: Object.assign(base(theme).tooltip, {axisPointer: {type: 'shadow'},
      formatter: (at) => tip(names[at[0].dataIndex], at.map((one) => [bars[one.seriesIndex].look,
        bars[one.seriesIndex].name,
        known(one.value) ? digits(one.value) + ' ' + unit.name : 'not known']))}),
    series: bars.map((bar) => ({type: 'bar', barMaxWidth: 36, barGap: '12%',
      itemStyle: {color: colourOf(bar.look, theme)},
      data: bar.values.map((value) => known(value) ? value / unit.bytes : null)})),
  });
}
