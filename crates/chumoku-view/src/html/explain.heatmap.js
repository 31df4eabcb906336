// The heatmap: the large picture of a head's weights, its weights times values, or a layer's rollout.
const n = D.words.length, square = n * n, scores = D.attribution.scores;
// Signs for the white space of a language model's tokens; ▁ is a space in many vocabularies.
const signsOf = text => text.replace(/[ ▁]/g, '␣').replace(/\n/g, '↵').replace(/\t/g, '⇥');
// The words of a text with the white space before each.
function spacedWords() {
  const found = [];
  let edge = D.text.length;
  // The model reads the end of a long text, so the search starts there.
  for (const { text, special } of [...D.words].reverse()) {
    const at = special ? -1 : D.text.lastIndexOf(text, edge - text.length);
    if (at >= 0) edge = at;
    found.unshift((at < 0 ? '' : D.text.slice(0, at).match(/\s*$/)[0]) + text);
  }
  return found;
}
if (D.kind === 'language_model') {
  for (const told of [D, ...D.probabilities, ...D.without || []]) told.label = signsOf(told.label);
  for (const piece of D.pieces) piece.text = signsOf(piece.text);
  D.attribution.class = signsOf(D.attribution.class);
}
const names = D.kind === 'language_model' ? spacedWords().map(text => plain(signsOf(text))) : D.words.map(w => plain(w.text));

// ---- contents of the picture ----
const KINDS = { heatmap: 'weights', lines: 'weights', depth: 'weights', values: 'value_weighted', rollout: 'rollout' };
const NOTHING = { values: new Float32Array(square), rough: false, max: 0 };
const arrayOf = (name, l, h) => matrix(name, l, name === 'rollout' ? undefined : h) || NOTHING;
const shown = () => arrayOf(KINDS[S.view], S.layer, S.head);
const isMasked = (q, k) => D.causal && k > q, seenBy = q => D.causal ? q + 1 : n;
// The number at the end of the color scale.
const ceiling = (name, l, h) => (S.scale === 'one' ? 1 : S.scale === 'head' ? arrayOf(name, l, h).max : largest(name)) || 1;
const ceilingNow = () => ceiling(KINDS[S.view], S.layer, S.head);
const shade = (x, max) => { const t = Math.min(1, Math.max(0, x / max || 0)); return Math.round(255 * (S.root ? Math.sqrt(t) : t)); };

const stage = $('stage'), tip = $('tip');
let hover = null, G = null;
const labels = names.map(w => fitText(clip(w), 128));
const labelMax = Math.max(24, ...labels.map(widthOf));
const indexWidth = widthOf(String(n)) + 8;
function geometry(width) {
  const left = Math.ceil(labelMax + indexWidth + 18), flat = Math.ceil(labelMax * .71) + 8;
  const cell = Math.floor(Math.min(40, Math.max(18, (width - left - flat - 4) / n)));
  // Narrow columns need steeper headings, which would overlap otherwise.
  const lean = cell < 24 ? Math.PI / 3 : Math.PI / 4;
  const rise = Math.ceil(labelMax * Math.sin(lean)) + 8, over = Math.ceil(labelMax * Math.cos(lean)) + 8;
  return { left, head: rise + 26, cell, lean, width: left + n * cell + over + 4, height: rise + 26 + n * cell + 2 };
}
// Masked keys are hatched, unlike any color of the scale.
function hatching(ctx, css) {
  const tile = el('canvas', { width: 6, height: 6 }), pen = tile.getContext('2d');
  pen.fillStyle = css.card; pen.fillRect(0, 0, 6, 6);
  pen.strokeStyle = css.hatch; pen.lineWidth = 1.2;
  for (const shift of [-6, 0, 6]) { pen.beginPath(); pen.moveTo(shift - 1, 7); pen.lineTo(shift + 7, -1); pen.stroke(); }
  return ctx.createPattern(tile, 'repeat');
}
function paint(ctx, g, view, css) {
  const { left, head: up, cell } = g, { values } = shown(), max = ceilingNow(), lut = LUTS[theme()], hatch = D.causal && hatching(ctx, css);
  const gap = cell >= 12 ? 1 : 0, at = hover || (S.query >= 0 ? { q: S.query, k: S.key } : null);
  ctx.fillStyle = css.card;
  ctx.fillRect(0, 0, view.w, view.h);
  const first = s => Math.max(0, Math.floor(s / cell)), last = (s, room) => Math.min(n, Math.ceil((s + room) / cell));
  const k0 = first(view.x), k1 = last(view.x, view.w - left), q0 = first(view.y), q1 = last(view.y, view.h - up);
  const X = k => left + k * cell - view.x, Y = q => up + q * cell - view.y;
  ctx.save();
  ctx.beginPath(); ctx.rect(left - 2, up - 2, view.w, view.h); ctx.clip();
  ctx.textAlign = 'center'; ctx.textBaseline = 'middle';
  ctx.font = `${cell >= 34 ? 12.5 : 11}px ${font}`;
  for (let q = q0; q < q1; q++) for (let k = k0; k < k1; k++) {
    const x = values[q * n + k], color = lut[shade(x, max)], masked = isMasked(q, k);
    ctx.globalAlpha = S.word < 0 || S.word === q || S.word === k ? 1 : masked ? .5 : .26;
    ctx.fillStyle = masked ? hatch : color.css;
    ctx.fillRect(X(k), Y(q), cell - gap, cell - gap);
    if (cell >= 24 && !masked) {
      ctx.fillStyle = color.ink;
      ctx.fillText(percent(x), X(k) + (cell - gap) / 2, Y(q) + (cell - gap) / 2 + .5);
    }
  }
  ctx.globalAlpha = 1;
  ctx.lineWidth = 1.5; ctx.strokeStyle = css.accent;
  const band = (q, k) => {
    if (q >= 0) ctx.strokeRect(X(0) - 1.25, Y(q) - 1.25, n * cell - gap + 2.5, cell - gap + 2.5);
    if (k >= 0) ctx.strokeRect(X(k) - 1.25, Y(0) - 1.25, cell - gap + 2.5, n * cell - gap + 2.5);
  };
  if (S.word >= 0) band(S.word, S.word);
  if (at) {
    band(at.q, at.k);
    ctx.lineWidth = 3; ctx.strokeStyle = css.ink;
    ctx.strokeRect(X(at.k) - .5, Y(at.q) - .5, cell - gap + 1, cell - gap + 1);
  }
  ctx.restore();

  // Labels stay in place while the cells scroll under them.
  const mark = (i, lit) => {
    ctx.font = `${lit ? '650 ' : ''}${LABEL}px ${font}`;
    return lit ? css.accent : D.words[i].special ? css.soft : css.ink;
  };
  const faded = (i, lit) => S.word >= 0 && !lit ? .75 : 1;
  ctx.save();
  ctx.beginPath(); ctx.rect(0, up, left - 2, view.h); ctx.clip();
  ctx.textBaseline = 'middle';
  for (let q = q0; q < q1; q++) {
    const lit = S.word === q || (at && at.q === q), y = Y(q) + cell / 2, color = mark(q, lit);
    ctx.globalAlpha = faded(q, lit);
    ctx.fillStyle = color; ctx.textAlign = 'right';
    ctx.fillText(labels[q], left - 10, y);
    ctx.font = `11px ${font}`; ctx.fillStyle = css.soft;
    ctx.fillText(q + 1, indexWidth - 2, y);
  }
  ctx.restore();
  ctx.save();
  ctx.beginPath(); ctx.rect(left - 6, 0, view.w, up - 2); ctx.clip();
  ctx.textBaseline = 'middle'; ctx.textAlign = 'left';
  // Narrow columns have space for every fifth or tenth number.
  const every = [1, 5, 10].find(m => m * cell > indexWidth + 2) || 20;
  for (let k = Math.max(0, k0 - Math.ceil(up / cell)); k < k1; k++) {
    const lit = S.word === k || (at && at.k === k);
    ctx.save();
    ctx.globalAlpha = faded(k, lit);
    ctx.translate(X(k) + (cell - gap) / 2, up - 9);
    ctx.font = `11px ${font}`; ctx.fillStyle = css.soft; ctx.textAlign = 'center';
    if ((k + 1) % every === 0 || lit) ctx.fillText(k + 1, 0, 0);
    ctx.translate(1, -13);
    ctx.rotate(-g.lean);
    ctx.fillStyle = mark(k, lit); ctx.textAlign = 'left';
    ctx.fillText(labels[k], 0, 0);
    ctx.restore();
  }
  ctx.restore();
  ctx.font = `12px ${font}`; ctx.fillStyle = css.soft; ctx.textBaseline = 'alphabetic'; ctx.textAlign = 'right';
  ctx.fillText(T.key, left - 12, up - 26);
  ctx.fillText(T.query, left - 12, up - 9);
}
function drawHeatmap() {
  G = geometry(stage.parentElement.clientWidth);
  const { ctx, view } = viewport(stage, G);
  paint(ctx, G, view, colors());
}

function save() {
  const g = geometry(900), ratio = 2, canvas = document.createElement('canvas'), isRollout = S.view === 'rollout';
  const title = [T.layerShort(S.layer + 1), ...isRollout ? [] : [T.headShort(S.head + 1)], ...S.view === 'heatmap' ? [] : [T.views[S.view]], D.model].join(' · ');
  const pad = 20, extra = 70, w = Math.max(g.width, 420) + 2 * pad, h = g.height + 2 * pad + extra;
  // Browsers fail on canvases somewhat larger than this.
  if (w * h * ratio * ratio > 2.4e8 || Math.max(w, h) * ratio > 16000) { $('readout').textContent = T.tooLarge; return; }
  canvas.width = w * ratio; canvas.height = h * ratio;
  const ctx = canvas.getContext('2d'), css = colors();
  ctx.scale(ratio, ratio);
  ctx.fillStyle = css.card; ctx.fillRect(0, 0, w, h);
  ctx.translate(pad, pad);
  ctx.fillStyle = css.ink; ctx.font = `650 15px ${font}`; ctx.fillText(title, 0, 14);
  ctx.translate(0, 26);
  paint(ctx, g, { w: g.width, h: g.height, x: 0, y: 0 }, css);
  ctx.translate(0, g.height + 10);
  for (let i = 0; i < 220; i++) { ctx.fillStyle = LUTS[theme()][Math.round(i / 219 * 255)].css; ctx.fillRect(i, 0, 1.5, 12); }
  ctx.fillStyle = css.soft; ctx.font = `12px ${font}`; ctx.textAlign = 'left';
  tickTexts().forEach((text, i) => { ctx.textAlign = ['left', 'center', 'right'][i]; ctx.fillText(text, 110 * i, 28); });
  canvas.toBlob(blob => {
    const link = el('a', { href: URL.createObjectURL(blob), download: `attention-layer${S.layer + 1}-${isRollout ? 'rollout' : 'head' + (S.head + 1)}.png` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}
const tickTexts = () => { const max = 100 * ceilingNow(), at = t => max * (S.root ? t * t : t); return [0, .5, 1].map(t => at(t).toFixed(t && max < 100 ? 1 : 0) + ' %'); };
function legend() {
  const lut = LUTS[theme()];
  $('ramp').style.background = `linear-gradient(to right, ${[0, 51, 102, 153, 204, 255].map(i => lut[i].css).join()})`;
  $('ticks').replaceChildren(...tickTexts().map(text => el('span', { text })));
}

// ---- pointer and keys ----
function under(e) {
  const box = stage.getBoundingClientRect(), x = e.clientX - box.left, y = e.clientY - box.top;
  const cellAt = (p, edge, scroll) => Math.floor((p - edge + scroll) / G.cell);
  let k = x >= G.left ? cellAt(x, G.left, stage.scrollLeft) : -1;
  const q = y >= G.head ? cellAt(y, G.head, stage.scrollTop) : -1;
  // Column headings lean to the right, so the column under the pointer is further left.
  if (y < G.head) k = Math.floor((x - Math.max(0, G.head - 22 - y) / Math.tan(G.lean) - G.left + stage.scrollLeft) / G.cell);
  const ok = i => i >= 0 && i < n ? i : -1;
  return { x, y, q: ok(q), k: ok(k), inRows: x < G.left, inColumns: y < G.head };
}
function aim(next) {
  if (JSON.stringify(next) === JSON.stringify(hover)) return;
  hover = next;
  strips(); read(); drawSoon();
}
stage.addEventListener('pointermove', e => {
  const p = under(e), cell = !p.inRows && !p.inColumns && p.q >= 0 && p.k >= 0, isNew = !hover || hover.q !== p.q || hover.k !== p.k;
  stage.style.cursor = cell ? 'crosshair' : (p.inRows ? p.q : p.inColumns ? p.k : -1) >= 0 ? 'pointer' : 'default';
  tip.hidden = !cell;
  if (cell) {
    if (isNew) {
      const { values, rough } = shown(), row = values.subarray(p.q * n, p.q * n + n), masked = isMasked(p.q, p.k);
      tip.replaceChildren(el('b', { text: masked ? '—' : share(row[p.k], 2, rough) }), el('span', {}, el('bdi', { text: clip(names[p.q], 24) }), ' → ', el('bdi', { text: clip(names[p.k], 24) })), el('div', { text: masked ? '' : T.rank(rankIn(row, p.k), seenBy(p.q)) }));
    }
    const right = p.x > stage.clientWidth * .62;
    tip.style.left = right ? 'auto' : p.x + 18 + 'px';
    tip.style.right = right ? stage.parentElement.clientWidth - p.x + 14 + 'px' : 'auto';
    tip.style.top = stage.offsetTop + p.y + 16 + 'px';
  }
  aim(cell ? { q: p.q, k: p.k } : null);
});
stage.addEventListener('pointerleave', () => { tip.hidden = true; aim(null); });
stage.addEventListener('click', e => {
  const p = under(e);
  if (p.inRows && p.inColumns) return;
  if (p.inRows && p.q >= 0) hold(p.q);
  else if (p.inColumns && p.k >= 0) hold(p.k);
  else if (p.q >= 0 && p.k >= 0) { S.query = p.q; S.key = p.k; read(true); draw(); writeHash(); }
});
stage.addEventListener('scroll', () => drawSoon());
stage.addEventListener('keydown', e => {
  const end = n - 1, q = S.query, k = S.key, far = e.ctrlKey || e.metaKey;
  const go = { ArrowLeft: [q, k - 1], ArrowRight: [q, k + 1], ArrowUp: [q - 1, k], ArrowDown: [q + 1, k], Home: [far ? 0 : q, 0], End: [far ? end : q, end] }[e.key];
  if (go) {
    e.preventDefault();
    [S.query, S.key] = q < 0 ? [0, 0] : go.map(i => within(i, n));
    hover = null; tip.hidden = true;
    reveal(); strips(); read(true); draw(); writeHash();
  } else if ((e.key === 'Enter' || e.key === ' ') && q >= 0) { e.preventDefault(); hold(q); S.query = q; S.key = k; draw(); writeHash(); }
});
function reveal() {
  if (S.view === 'lines') return lines.reveal();
  if (!G || (S.query < 0 && S.word < 0)) return;
  const [q, k] = S.query < 0 ? [S.word, S.word] : [S.query, S.key];
  // Some neighboring cells stay visible too.
  const near = (scroll, size, at) => Math.min(at - 3 * G.cell, Math.max(scroll, at + 4 * G.cell - size));
  stage.scrollLeft = near(stage.scrollLeft, stage.clientWidth - G.left - 4, k * G.cell);
  stage.scrollTop = near(stage.scrollTop, stage.clientHeight - G.head - 4, q * G.cell);
}
