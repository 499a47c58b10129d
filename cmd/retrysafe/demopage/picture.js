// Draws what happened to one order as a sequence picture: lifelines from the client to the API, time downwards.
// A picture holds the messages it is given, in their order, and nothing else.

const svgNamespace = 'http://www.w3.org/2000/svg';
const width = 320, left = 34, right = 290, top = 40, row = 26;

export function drawPicture({ lifelines, messages }, label) {
  const x = Object.fromEntries(lifelines.map((name, i) => [name, left + i * (right - left) / (lifelines.length - 1)]));
  const rows = [];
  let y = top, attempt = 0, charges = 0;
  messages.forEach((m, i) => {
    if (m.attempt !== attempt) {
      attempt = m.attempt;
      rows.push(turn(`attempt ${attempt}`, y));
      y += row + 2;
    }
    if (m.kind === 'charge') charges++;
    rows.push(message(m, i + 1, x, y, charges));
    y += row;
  });
  const svg = element('svg', { viewBox: `0 0 ${width} ${y}`, role: 'img', 'aria-label': label });
  for (const name of lifelines) {
    svg.append(
      element('line', { class: 'life', x1: x[name], x2: x[name], y1: 24, y2: y }),
      element('text', { class: 'head', x: x[name], y: 15, 'text-anchor': 'middle', 'data-lifeline': name }, name));
  }
  svg.append(...rows);
  return svg;
}

// The sentence that says the same as an arrow.
export function describe(m) {
  switch (m.kind) {
    case 'lost-request': return 'the line loses the request';
    case 'lost-answer': return `the line keeps back the answer (${m.text})`;
    case 'reset': return 'the client sees a broken connection';
    case 'silence': return `the client waits in vain: ${m.text}`;
    case 'charge': return `the API makes ${m.text} of this order`;
    case 'belief': return `the client ${m.text}`;
    default: return `${m.from} to ${m.to}: ${m.text}`;
  }
}

function turn(text, y) {
  const g = element('g', { class: 'turn' });
  g.append(
    element('line', { x1: 0, x2: width, y1: y, y2: y }),
    element('text', { x: 0, y: y + 3.5 }, text));
  return g;
}

function message(m, step, x, y, charges) {
  const again = m.kind === 'charge' && charges > 1 ? ' again' : '';
  const g = element('g', {
    class: `message ${m.kind}${again}`,
    'data-step': step, 'data-from': m.from, 'data-to': m.to, 'data-kind': m.kind, 'data-attempt': m.attempt,
  });
  g.append(...(m.from === m.to ? note(m, x[m.from], y) : arrow(m, x[m.from], x[m.to], y)));
  return g;
}

// A note stands beside its lifeline, on the side that has room.
function note(m, x, y) {
  const side = x > width / 2 ? -1 : 1;
  return [
    element('circle', { cx: x, cy: y, r: 4 }),
    element('text', { x: x + side * 9, y: y + 4, 'text-anchor': side < 0 ? 'end' : 'start' }, m.text),
  ];
}

// The arrow of what is lost ends half-way, at a cross.
function arrow(m, from, to, y) {
  const lost = m.kind.startsWith('lost-');
  const end = lost ? (from + to) / 2 : to;
  const back = Math.sign(to - from);
  const tip = lost
    ? element('path', { d: `M${end - 4} ${y - 4}l8 8m0 -8l-8 8` })
    : element('path', { class: 'tip', d: `M${to} ${y}l${-7 * back} -3.5v7z` });
  return [
    element('line', { x1: from, x2: lost ? end - 4 * back : to - 5 * back, y1: y, y2: y }),
    tip,
    element('text', { x: (from + to) / 2, y: y - (lost ? 7 : 5), 'text-anchor': 'middle' }, m.text),
  ];
}

function element(name, attributes, text) {
  const e = document.createElementNS(svgNamespace, name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  if (text !== undefined) e.textContent = text;
  return e;
}
