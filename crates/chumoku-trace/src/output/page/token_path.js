
// Follows a token: its row in every step, and the vectors that it becomes.
const path = $('token-path'), chooser = $('token');
let token = -1;
// How many rows of a matrix belong to each token. All keys and values take part in a token's attention, so they are
// marked only where they are computed.
const rowsPer = view => view.step.tokenRows ?? (view === view.step.views[0] ? view.step.keyRows : undefined);
const markRows = () => {
  for (const step of steps) for (const view of step.views) {
    const per = rowsPer(view);
    const mark = (node, k) => { if (token < 0) delete node.dataset.token; else node.dataset.token = Math.floor(k / per) === token ? 'on' : 'off'; };
    if (per) view.cells.forEach((row, r) => view.isTransposed ? row.forEach(mark) : mark(row[0].parentElement, r));
  }
};
// A vector on the path: its step, or a head's output times the weights `after` it; its length, or an answer; its numbers.
const pathStep = ({ step, after, x, long, answer, numbers }, size) => {
  const name = el(step.at ? 'a' : 'b', '', ...symbols(step.sym)), title = (step.card?.querySelector('h3') ?? step.figure?.querySelector('.name'))?.querySelectorAll('.t') ?? [];
  if (step.at) name.href = `#${step.at}`;
  const head = el('span', '', name, ...(after ? [' · ', ...symbols(after)] : []), ' '), item = el('li', '', head);
  if (!after) head.append(...[...title].map(text => text.cloneNode(true)));
  if (answer) item.append(el('b', '', el('bdi', '', answer)));
  else if (long) {
    const bar = el('i', 'bar-of');
    bar.style.inlineSize = `${size ? x / size * 100 : 0}%`;
    item.append(el('span', 'track', bar), el('span', 'long', long));
  }
  item.append(el('small', '', numbers));
  return item;
};
const followToken = () => {
  markRows();
  $('token-path-box').hidden = token < 0;
  if (token < 0) return;
  const all = pathSteps(), size = Math.max(0, ...all.map(own => own.long ? own.x : 0).filter(Number.isFinite));
  path.replaceChildren(...all.map(own => pathStep(own, size)));
};
const choose = to => {
  token = to;
  chooser.value = to < 0 ? '' : String(to + 1);
  link('token', to < 0 ? null : to + 1);
  followToken();
};
const readToken = () => {
  const to = Number(linked().get('token')) - 1;
  if (chooser && Number.isInteger(to) && to !== token && to >= 0 && to < chooser.options.length - 1) choose(to);
};
if (chooser) {
  chooser.addEventListener('change', () => choose(Number(chooser.value) - 1));
  // The name of a row chooses it too.
  $('steps').addEventListener('click', e => {
    const name = e.target.closest('tbody th'), view = name && viewOf.get(name.closest('figure')), per = view && !view.isTransposed && rowsPer(view);
    if (!per) return;
    const to = Math.floor([...name.closest('tbody').children].indexOf(name.parentElement) / per);
    choose(to === token ? -1 : to);
  });
  addEventListener('keydown', e => {
    const by = { '[': -1, ']': 1 }[e.key];
    if (by && !isTyping(e)) choose(Math.min(Math.max(token + by, -1), chooser.options.length - 2));
  });
  addEventListener('hashchange', readToken);
}
