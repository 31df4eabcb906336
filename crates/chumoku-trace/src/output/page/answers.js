// Answers where a number comes from, and plays a product.
// The questions, each about an operand of the one before.
let chain = [], marked = [], term = -1;
const unmark = () => { for (const cell of marked) cell.classList.remove('sel', 'src', 'now'); marked = []; };
const light = ({ id, i, j }, kind) => {
  for (const view of byId.get(id).views) {
    const cell = cellOf(view, i, j);
    if (cell) { cell.classList.add(kind); marked.push(cell); }
  }
};
// The text of a number's computation with marks for its operands, and all operands that it uses.
const explain = ({ id, i, j }) => {
  const step = byId.get(id), used = new Set();
  if (step.op === 'Given') return { text: lang() === 'ja' ? '入力' : 'given', used: [], isGiven: true };
  const of = operands(step).map(k => k === null ? null : values[k].map((row, a) => row.map((x, b) => new Cell(used, k, a, b, x))));
  const made = definition(step), rows = made.source === undefined ? undefined : values[made.source];
  const source = rows?.map((row, a) => row.map((x, b) => new Cell(used, made.source, a, b, x)));
  const text = expansions[made.op](of, source ? { ...made, source } : made, i, j)(lang());
  return { text, used: [...used] };
};
const MARKS = /\u0001(\d+),(\d+),(\d+)\u0002([^\u0003]*)\u0003/g;
const asCell = ([, id, i, j]) => ({ id: Number(id), i: Number(i), j: Number(j) });
const named = ({ id, i, j }) => [...symbols(byId.get(id).sym), `(${i + 1},${j + 1})`];
const valueAt = ({ id, i, j }) => writer(values[id])(values[id][i][j]);
// A zero that has a reason.
const reason = ({ id, i, j }) => {
  const step = byId.get(id), [a, g] = matrices(operands(step)), isJa = lang() === 'ja';
  if (definition(step).op !== 'SoftmaxGradient' || Math.abs(values[id][i][j]) > 1e-12) return '';
  if (a[i][j] === 0) return isJa ? 'この重みは 0 なので、勾配も 0' : 'this weight is 0, and so is the gradient';
  if (g[i].every((x, k) => a[i][k] === 0 || Math.abs(x - g[i][j]) <= 1e-12)) {
    return isJa ? '行の勾配がすべて等しく、softmax は一律の差に影響されない' : 'all gradients of the row are equal, and softmax ignores shifts';
  }
  return '';
};
// Splits a sum into its terms.
const termsOf = text => {
  let depth = 0, start = 0;
  const found = [];
  for (let k = 0; k < text.length; k++) {
    if (text[k] === '(') depth++; else if (text[k] === ')') depth--;
    else if (depth === 0 && text.startsWith(' + ', k)) { found.push(text.slice(start, k)); start = k + 3; }
  }
  return [...found, text.slice(start)];
};
// The sum of the first terms, if they are products of operands.
const partial = (terms, count) => {
  const own = t => {
    const rest = t.replace(MARKS, '').replace(/[()·\s]/g, '');
    return rest ? NaN : [...t.matchAll(MARKS)].map(asCell).reduce((p, c) => p * values[c.id][c.i][c.j], 1);
  };
  return terms.slice(0, count).reduce((s, t) => s + own(t), 0);
};
const line = (of, k) => {
  const { text, isGiven } = explain(of), item = el('li'), next = chain[k + 1], parts = termsOf(text);
  const words = [0, 1].map(axis => byId.get(of.id).labels?.[axis]?.[axis ? of.j : of.i]).filter(Boolean).join(' → ');
  item.append(el('b', '', ...named(of)), ...(words ? [' ', el('small', '', el('bdi', '', words))] : []), isGiven ? ': ' : ' = ');
  const isPlaying = k === chain.length - 1 && term >= 0;
  parts.forEach((part, n) => {
    const box = el('span', isPlaying ? n === term ? 'term now' : n > term ? 'term later' : 'term' : 'term');
    let from = 0;
    for (const match of part.matchAll(MARKS)) {
      box.append(part.slice(from, match.index));
      from = match.index + match[0].length;
      const to = asCell(match), button = el('button', next && next.id === to.id && next.i === to.i && next.j === to.j ? 'n on' : 'n', match[4]);
      button.type = 'button';
      const name = `${byId.get(to.id).sym}(${to.i + 1},${to.j + 1})`, exact = values[to.id][to.i][to.j];
      // A number whose shown digits are all 0 may not be 0.
      button.title = exact !== 0 && /^[0.]*$/.test(match[4]) ? `${name} = ${exact}` : name;
      button.setAttribute('aria-label', `${name}: ${match[4]}`);
      button.addEventListener('click', () => {
        const at = [...item.querySelectorAll('button')].indexOf(button);
        follow(k, to);
        $('chain').children[k]?.querySelectorAll('button')[at]?.focus({ preventScroll: true });
      });
      box.append(button);
    }
    box.append(part.slice(from));
    item.append(n ? ' + ' : '', box);
  });
  const sum = isPlaying && term < parts.length - 1 ? partial(parts, term + 1) : NaN;
  if (!Number.isNaN(sum)) item.append(el('span', 'sum', ` → ${spelled(sum)}`));
  if (!isGiven) item.append(' = ', el('b', 'result', valueAt(of)));
  const why = isGiven ? '' : reason(of);
  if (why) item.append(el('span', 'reason', ` ${why}`));
  return item;
};
// Writes the answer and lights up the numbers that the last question is about.
const ask = () => {
  unmark();
  const last = chain.at(-1), first = chain[0], answer = explain(last);
  const lit = term < 0 ? [] : [...(termsOf(answer.text)[term] ?? '').matchAll(MARKS)].map(asCell);
  for (const cell of answer.used) light(cell, 'src');
  for (const cell of lit) light(cell, 'now');
  light(last, 'sel');
  const title = lang() === 'ja' ? [...named(first), ` = ${valueAt(first)} になる理由`] : ['Why is ', ...named(first), ` = ${valueAt(first)}?`];
  $('why-title').replaceChildren(...title);
  $('chain').replaceChildren(...chain.map(line));
  $('why').hidden = false;
  root.classList.add('asking');
};
const follow = (k, to) => {
  chain = [...chain.slice(0, k + 1), to];
  term = -1;
  ask();
  reveal(to);
};
const calm = matchMedia('(prefers-reduced-motion: reduce)');
const reveal = ({ id, i, j }, isAtOnce) => {
  const view = byId.get(id).views[0], cell = view && cellOf(view, i, j) || view?.figure;
  if (!cell) return;
  for (let box = cell.closest('details'); box; box = box.parentElement.closest('details')) box.open = true;
  cell.scrollIntoView({ block: 'nearest', inline: 'nearest', behavior: calm.matches || isAtOnce ? 'instant' : 'smooth' });
};
const select = cell => {
  chain = [cell];
  term = -1;
  ask();
  const { at } = byId.get(cell.id);
  if (at) link('why', `${at},${cell.i + 1},${cell.j + 1}`);
};
const close = () => {
  pause();
  unmark();
  chain = [];
  $('why').hidden = true;
  root.classList.remove('asking');
  link('why', null);
};
// From the last question down to an input: the largest term of each number, and in it what was computed, if anything was.
const down = () => {
  const size = c => Math.abs(values[c.id][c.i][c.j]), isComputed = c => byId.get(c.id).op !== 'Given';
  for (let k = 0; chain.length && k < 60; k++) {
    const { text, isGiven } = explain(chain.at(-1));
    if (isGiven) break;
    const all = termsOf(text).map(t => [...t.matchAll(MARKS)].map(asCell)).filter(cells => cells.length && cells.every(c => Number.isFinite(size(c))));
    if (!all.length) break;
    const weigh = cells => cells.reduce((p, c) => p * size(c), 1);
    const cells = all.reduce((best, own) => weigh(own) > weigh(best) ? own : best), computed = cells.filter(isComputed);
    chain.push((computed.length ? computed : cells).reduce((best, c) => size(c) > size(best) ? c : best));
  }
  term = -1;
  ask();
  reveal(chain.at(-1));
};
const placeOf = cell => {
  const view = viewOf.get(cell.closest('figure')), row = cell.parentElement, tbody = row.parentElement;
  const r = [...tbody.children].indexOf(row), c = [...row.querySelectorAll('td')].indexOf(cell);
  return view && view.cells[r]?.[c] === cell ? { view, r, c, of: view.isTransposed ? { id: view.step.id, i: c, j: r } : { id: view.step.id, i: r, j: c } } : null;
};
const isInput = view => view.step.given && view === view.step.views[0];
const board = $('steps');
const isSame = (a, b) => a && a.id === b.id && a.i === b.i && a.j === b.j;
board.addEventListener('click', e => {
  const cell = e.target.closest('td'), place = cell && placeOf(cell);
  if (!place || isInput(place.view)) return;
  cell.tabIndex = cell.tabIndex === 0 ? 0 : -1;
  cell.focus({ preventScroll: true });
  if (!isSame(chain[0], place.of) || chain.length > 1) select(place.of);
});
board.addEventListener('focusin', e => {
  const cell = e.target.closest('td'), place = cell && placeOf(cell);
  if (!place) return;
  if (!isInput(place.view)) { if (!isSame(chain[0], place.of)) select(place.of); return; }
  // An input lights up wherever it is used.
  if (!chain.length) { unmark(); light(place.of, 'src'); }
});
board.addEventListener('keydown', e => {
  const cell = e.target.closest('td'), place = cell && placeOf(cell);
  if (!place || isInput(place.view)) return;
  const { view, r, c } = place, width = view.cells[r].length;
  const to = { ArrowDown: [r + 1, c], ArrowUp: [r - 1, c], ArrowLeft: [r, c - 1], ArrowRight: [r, c + 1], Home: [r, 0], End: [r, width - 1] }[e.key];
  if (to) {
    e.preventDefault();
    const next = view.cells[to[0]]?.[to[1]];
    if (next) { next.tabIndex = next.tabIndex === 0 ? 0 : -1; next.focus(); }
  } else if (e.key === 'Enter') {
    e.preventDefault();
    down();
    $('chain').querySelector('button')?.focus({ preventScroll: true });
  }
});
$('down').addEventListener('click', down);
$('close').addEventListener('click', () => {
  const first = chain[0], view = first && byId.get(first.id).views[0], cell = view && cellOf(view, first.i, first.j);
  close();
  if (!cell) return;
  // A cell without the attribute takes no focus.
  cell.tabIndex = cell.tabIndex === 0 ? 0 : -1;
  cell.focus();
  // The focus asked again.
  close();
});
document.addEventListener('lang', () => { if (chain.length) ask(); });

// ---- play: term by term, cell by cell, as on a blackboard ----
const playable = steps.filter(step => step.op !== 'Given' && step.card);
let timer = null;
const press = isOn => {
  $('play').setAttribute('aria-pressed', String(isOn));
  $('play').querySelector('.on').hidden = !isOn;
  $('play').querySelector('.off').hidden = isOn;
};
const pause = () => {
  clearInterval(timer);
  timer = null;
  press(false);
};
const nextCell = by => {
  const order = playable.filter(step => !isOff(step)), last = chain[0];
  let k = order.findIndex(step => step.id === last?.id), i = last?.i ?? 0, j = (last?.j ?? -1) + by;
  if (k < 0) { k = 0; i = 0; j = 0; }
  const cells = () => order[k].views[0].cells;
  if (j >= cells()[i].length) { i++; j = 0; }
  if (i >= cells().length) { k = (k + 1) % order.length; i = 0; }
  if (j < 0) {
    i--;
    if (i < 0) { k = (k + order.length - 1) % order.length; i = cells().length - 1; }
    j = cells()[i].length - 1;
  }
  return { id: order[k].id, i, j };
};
const go = (by, byCell) => {
  const first = chain[0], count = first && byId.get(first.id).op !== 'Given' ? termsOf(explain(first).text).length : 0;
  if (first && chain.length > 1) { chain = [first]; term = -1; }
  if (first && !byCell && term + by >= 0 && term + by < count) term += by;
  else {
    select(nextCell(by));
    term = byCell ? -1 : by > 0 ? 0 : Math.max(0, termsOf(explain(chain[0]).text).length - 1);
  }
  ask();
  reveal(chain[0]);
};
const play = () => {
  if (timer !== null) { pause(); return; }
  press(true);
  const tick = () => go(1, calm.matches);
  timer = setInterval(tick, calm.matches ? 1500 : 700);
  tick();
};
$('play').addEventListener('click', play);
$('next').addEventListener('click', () => { pause(); go(1, false); });
$('back').addEventListener('click', () => { pause(); go(-1, false); });
addEventListener('keydown', e => {
  if (isTyping(e) || e.target.matches('input')) return;
  const isCell = e.target.closest?.('td');
  if (e.key === 'Escape' && chain.length) $('close').click();
  else if (e.key === 'p' || (e.key === ' ' && isCell)) { e.preventDefault(); play(); }
  else if (e.key === '.') { pause(); go(1, false); }
  else if (e.key === ',') { pause(); go(-1, false); }
});
const foldAll = isOpen => document.querySelectorAll('main details').forEach(box => { box.open = isOpen; });
$('fold').addEventListener('click', () => foldAll(false));
$('unfold').addEventListener('click', () => foldAll(true));

