'use strict';
// What each chart shows: ECharts' options from the document of the page. All text of the document
// goes into text nodes, never into markup.
const study = JSON.parse(document.getElementById('study').textContent);
const KIB = 1024, MIB = 1024 * KIB, GIB = 1024 * MIB;

function unitFor(mostBytes) {
  return mostBytes >= 10 * GIB ? {bytes: GIB, name: 'GiB'} : {bytes: MIB, name: 'MiB'};
}

function known(value) {
  return value !== null && value !== undefined;
}

function median(values) {
  const sorted = values.filter(known).sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  if (sorted.length === 0) return null;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

function shortened(text, limit) {
  const letters = Array.from(text);
  return letters.length <= limit ? text : letters.slice(0, limit - 1).join('') + '…';
}

function digits(value) {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

const colourOf = (look, theme) => theme.dark ? look.dark : look.light;
const dashOf = (look) => ({solid: 'solid', dashed: [8, 5], dotted: [2, 4]})[look.dash];

// The marks, in a box of 10 by 10.
const SHAPES = {
  circle: 'M0 5A5 5 0 1 0 10 5A5 5 0 1 0 0 5Z', rect: 'M0 0H10V10H0Z', triangle: 'M5 0L10 10H0Z',
  diamond: 'M5 0L10 5L5 10L0 5Z', down: 'M0 0H10L5 10Z', pentagon: 'M5 0L10 4L8 10H2L0 4Z',
};
const symbolOf = (look) => 'path://' + SHAPES[look.symbol];

function markStyle(look, theme) {
  const colour = colourOf(look, theme);
  return look.hollow ? {color: theme.ground, borderColor: colour, borderWidth: 1.5} : {color: colour};
}

// Without those at ends that are not at a tick.
function axisLabels(theme, extra) {
  return Object.assign({color: theme.soft, fontSize: 12, hideOverlap: true}, extra);
}

// An axis with a name that says the unit. `name` of a vertical one lies above it: turned text is
// hard to read.
function axis(theme, name, extra) {
  return Object.assign({
    type: 'value', name, nameTextStyle: {color: theme.ink, fontSize: 13},
    axisLine: {show: true, lineStyle: {color: theme.soft}}, axisTick: {show: true},
    axisLabel: axisLabels(theme),
    splitLine: {lineStyle: {color: theme.line, width: 1}},
  }, extra);
}

function across(theme, name, extra) {
  return axis(theme, name, Object.assign({
    nameLocation: 'middle', nameGap: 30, splitLine: {show: false}}, extra));
}

function upright(theme, name, extra) {
  return axis(theme, name, Object.assign({
    nameGap: 12, nameTextStyle: {color: theme.ink, fontSize: 13, align: 'left'}}, extra));
}

function base(theme, extra) {
  return Object.assign({
    animation: false, textStyle: {fontFamily: 'inherit'},
    grid: {left: 12, right: 24, top: 36, bottom: 36, containLabel: true},
    tooltip: {
      confine: true, trigger: 'axis', backgroundColor: theme.ground, borderColor: theme.line,
      textStyle: {color: theme.ink}, axisPointer: {lineStyle: {color: theme.soft}},
    },
  }, extra);
}

function tip(head, rows) {
  const box = element('div', {className: 'tip'}, element('strong', {}, head));
  const table = element('table', {});
  for (const [look, name, value] of rows) {
    const mark = element('td', {}, look ? swatch(look, theme()) : '');
    table.append(element('tr', {}, mark, element('td', {}, name), element('td', {className: 'n'}, value)));
  }
  box.append(table);
  return box;
}

// Which points of a line have its mark: some, and not where its neighbours have theirs.
const MARKS = 10;
function markedPoints(points, line, lines) {
  const last = points.at(-1)[0], marked = new Set();
  for (let i = 0; i < MARKS; ++i) {
    const at = last * (i + (line + 0.5) / lines) / MARKS;
    marked.add(points.findIndex((point) => point[0] >= at));
  }
  return marked;
}

function markedLine(theme, line, index, lines) {
  const marked = markedPoints(line.points, index, lines.length), symbol = symbolOf(line.look);
  return {
    type: 'line', data: line.points, showSymbol: !line.faint, symbolSize: 8,
    symbol: (value, point) => marked.has(point.dataIndex) ? symbol : 'none',
    sampling: false, connectNulls: false, emphasis: {disabled: true},
    itemStyle: markStyle(line.look, theme),
    lineStyle: {color: colourOf(line.look, theme), type: dashOf(line.look),
      width: line.faint ? 1 : 2, opacity: line.faint ? 0.45 : 1},
  };
}

// Lines over time, with what zooms them. `lines`: [{name, look, points: [[seconds, value or null]],
// faint}]; `values` says a value with its unit.
function overTime(theme, lines, y, values) {
  return base(theme, {
    grid: {left: 12, right: 24, top: 36, bottom: 76, containLabel: true},
    xAxis: across(theme, 'seconds since the start', {min: 0, max: 'dataMax',
      axisLabel: axisLabels(theme, {showMaxLabel: false})}),
    yAxis: y,
    dataZoom: [
      {type: 'inside', filterMode: 'none', zoomOnMouseWheel: 'ctrl', moveOnMouseWheel: false},
      {type: 'slider', filterMode: 'none', height: 20, bottom: 8, borderColor: theme.line,
        textStyle: {color: theme.soft}, fillerColor: theme.fill, brushSelect: false,
        showDataShadow: false, labelFormatter: (value) => value.toFixed(2) + ' s'},
    ],
    tooltip: Object.assign(base(theme).tooltip, {
      formatter: (at) => tip(at[0].value[0].toFixed(3) + ' s', at.map((one) => {
        const line = lines[one.seriesIndex];
        return [line.look, line.name, known(one.value[1]) ? values(one.value[1]) : 'not known'];
      })),
    }),
    series: lines.map((line, index) => markedLine(theme, line, index, lines)),
  });
}

function memoryLines(choice, run, hidden) {
  const [kind, what] = choice.split(':');
  const lines = [];
  for (const series of study.series) {
    const keys = kind === 'measure' ? [what] : study.measures.map((measure) => measure.key);
    if (kind === 'configuration' && series.configuration !== Number(what)) continue;
    if (run === 'shown' ? !series.shown : run !== 'all' && series.repeat !== Number(run)) continue;
    for (const key of keys) {
      const measure = study.measures.find((one) => one.key === key);
      const subject = kind === 'measure' ? study.configurations[series.configuration] : measure;
      const entry = kind === 'measure' ? 'c' + series.configuration : 'm' + key;
      if (!series[key] || hidden.has(entry)) continue;
      lines.push({name: subject.label || subject.key, look: subject, series,
        faint: run === 'all' && !series.shown,
        bytes: series[key].map((value) => known(value) ? value * KIB : null)});
    }
  }
  return lines;
}

function memoryOption(theme, choice, run, hidden) {
  const lines = memoryLines(choice, run, hidden);
  const unit = unitFor(Math.max(0, ...lines.flatMap((line) => line.bytes)));
  for (const line of lines) {
    line.points = line.bytes.map((bytes, i) =>
        [line.series.seconds[i], known(bytes) ? bytes / unit.bytes : null]);
  }
  const name = choice.startsWith('measure') ? choice.split(':')[1] : 'memory';
  return overTime(theme, lines, upright(theme, name + ', ' + unit.name, {min: 0}),
      (value) => digits(value) + ' ' + unit.name);
}

// Held by live, where the program had at least a hundredth of its peak: with nothing live, any
// ratio is infinite and says nothing.
function ratioPoints(series) {
  const least = Math.max(...series.live) / 100;
  return series.seconds.map((at, i) => {
    const held = series.held[i], live = series.live[i];
    return [at, known(held) && known(live) && live > 0 && live >= least ? held / live : null];
  });
}

function ratioSeries() {
  return study.series.filter((series) => series.shown && series.held && series.live);
}

function ratioOption(theme, hidden) {
  const lines = ratioSeries().filter((series) => !hidden.has('c' + series.configuration))
      .map((series) => {
        const configuration = study.configurations[series.configuration];
        return {name: configuration.label, look: configuration, points: ratioPoints(series)};
      });
  const most = Math.max(1, ...lines.flatMap((line) => line.points.map((point) => point[1])));
  const scale = most > 10 ? {type: 'log', min: 1} : {min: 0};
  return overTime(theme, lines, upright(theme, 'held / live', scale), digits);
}
