(() => {
  const root = document.documentElement;
  // Anything that goes wrong is written where a test (or a curious reader) can see it.
  const tally = name => { root.dataset[name] = Number(root.dataset[name] || 0) + 1; };
  addEventListener('error', e => { tally('errors'); root.dataset.error = e.message; });
  document.addEventListener('securitypolicyviolation', () => tally('violations'));

  const $ = id => document.getElementById(id);
  // The only way text comes into the page: as text, never as markup.
  function el(tag, props = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(props)) {
      if (name === 'text') node.textContent = value;
      else if (name === 'class') node.className = value;
      else if (name.includes('-') || name === 'role' || name === 'scope') node.setAttribute(name, value);
      else node[name] = value;
    }
    node.append(...children);
    return node;
  }

  const D = JSON.parse($('data').textContent);
  const n = D.words.length, square = n * n;
  const A = (() => {
    const maps = [...document.querySelectorAll('.map[data-name="weights"]')].map(map => {
      const bytes = Uint8Array.from(atob(map.textContent), c => c.charCodeAt(0));
      if (map.dataset.form === 'u8') return Float32Array.from(bytes, b => b / 255);
      const view = new DataView(bytes.buffer);
      return Float32Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(4 * i, true));
    });
    const out = new Float32Array(maps.reduce((sum, map) => sum + map.length, 0));
    maps.reduce((at, map) => { out.set(map, at); return at + map.length; }, 0);
    return out;
  })();
  const words = D.words.map(w => w.text), scores = D.attribution.scores;
  // Signs that have no shape, or that reverse what follows, must not act on the page's own sentences.
  const plain = words.map(w => w.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, '␣').replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '\ufffd').replace(/^(?=\p{M})/u, '◌') || '␣');
  const clip = (s, m = 40) => { const c = [...s]; return c.length > m ? c.slice(0, m - 1).join('') + '…' : s; };
  const head = (l, h) => A.subarray((l * D.heads + h) * square, (l * D.heads + h + 1) * square);
  const maxOf = a => { let m = 0; for (const x of a) if (x > m) m = x; return m; };
  const maxAll = maxOf(A);

  // ---- state, and its copy in the address, so that a link shows what its sender saw ----
  const system = matchMedia('(prefers-color-scheme: dark)');
  const S = { layer: D.first_layer, head: D.first_head, lang: root.lang === 'ja' ? 'ja' : 'en', theme: 'auto', scale: 'all', root: false, word: -1, query: -1, key: -1 };
  const whole = (text, count) => { const i = /^\d+$/.test(text || '') ? Number(text) - 1 : -1; return i < count ? i : -1; };
  function readHash() {
    const p = new URLSearchParams(location.hash.slice(1));
    const at = whole(p.get('layer'), D.layers), by = whole(p.get('head'), D.heads);
    S.layer = at < 0 ? D.first_layer : at;
    S.head = by < 0 ? D.first_head : by;
    if (['en', 'ja'].includes(p.get('lang'))) S.lang = p.get('lang');
    if (['auto', 'light', 'dark'].includes(p.get('theme'))) S.theme = p.get('theme');
    if (['all', 'head', 'one'].includes(p.get('scale'))) S.scale = p.get('scale');
    S.root = p.get('root') === '1';
    S.word = whole(p.get('word'), n);
    S.query = whole(p.get('query'), n);
    S.key = S.query < 0 ? -1 : whole(p.get('key'), n);
    if (S.key < 0) S.query = -1;
    if (p.get('table') === '1') $('numbers-fold').open = true;
  }
  function writeHash() {
    const p = new URLSearchParams({ layer: S.layer + 1, head: S.head + 1, lang: S.lang });
    if (S.theme !== 'auto') p.set('theme', S.theme);
    if (S.scale !== 'all') p.set('scale', S.scale);
    if (S.root) p.set('root', 1);
    if (S.word >= 0) p.set('word', S.word + 1);
    if (S.query >= 0) { p.set('query', S.query + 1); p.set('key', S.key + 1); }
    if ($('numbers-fold').open) p.set('table', 1);
    // Some browsers refuse this for a file on disk; the page then works without the link.
    try { history.replaceState(null, '', '#' + p); } catch { /* nothing is lost */ }
  }
  let T = STRINGS[S.lang];

  // ---- numbers ----
  const percent = (x, digits) => Number.isFinite(x) ? (100 * x).toFixed(digits) : 'NaN';
  const signed = x => !Number.isFinite(x) || x === null ? '–' : Math.abs(x) < .005 ? '0.00' : (x > 0 ? '+' : '−') + Math.abs(x).toFixed(2);
  // The fewest digits that name the same f32.
  const exact = x => { for (let d = 1; d < 10; d++) { const s = x.toPrecision(d); if (Math.fround(Number(s)) === x) return String(Number(s)); } return String(x); };

  // ---- colour scale ----
  const SCALES = {
    light: ['#f3f6f4', '#c6e4da', '#7fc5b9', '#37959a', '#1d5f78', '#1a2c52'],
    dark: ['#1f262f', '#1c445c', '#206f80', '#3c9d93', '#86c8a0', '#e6f2b8'],
  };
  const rgb = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
  const LUTS = {};
  for (const [name, anchors] of Object.entries(SCALES)) {
    const stops = anchors.map(rgb);
    LUTS[name] = Array.from({ length: 256 }, (_, i) => {
      const place = i / 255 * (stops.length - 1), k = Math.min(stops.length - 2, Math.floor(place)), f = place - k;
      const c = stops[k].map((v, j) => Math.round(v + (stops[k + 1][j] - v) * f));
      const lin = c.map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
      // Dark or light digits, by the contrast that WCAG defines.
      const light = .2126 * lin[0] + .7152 * lin[1] + .0722 * lin[2] > .179;
      return { c, css: `rgb(${c})`, ink: light ? '#10151b' : '#f6f8fa' };
    });
  }
  const theme = () => S.theme === 'auto' ? (system.matches ? 'dark' : 'light') : S.theme;
  const top = (l, h) => (S.scale === 'one' ? 1 : S.scale === 'head' ? maxOf(head(l, h)) : maxAll) || 1;
  const step = (x, max) => { const t = Math.min(1, Math.max(0, x / max || 0)); return Math.round(255 * (S.root ? Math.sqrt(t) : t)); };

  // ---- the large picture ----
  const stage = $('stage'), map = $('map'), tip = $('tip');
  const font = getComputedStyle(document.body).fontFamily;
  const measurer = document.createElement('canvas').getContext('2d');
  const LABEL = 13;
  let hover = null, G = null;
  function fit(text, width) {
    measurer.font = `${LABEL}px ${font}`;
    if (measurer.measureText(text).width <= width) return text;
    const c = [...text];
    while (c.length && measurer.measureText(c.join('') + '…').width > width) c.pop();
    return c.join('') + '…';
  }
  const labels = plain.map(w => fit(clip(w), 128));
  measurer.font = `${LABEL}px ${font}`;
  const labelMax = Math.max(24, ...labels.map(w => measurer.measureText(w).width));
  const indexWidth = measurer.measureText(String(n)).width + 8;
  function geometry(width) {
    const left = Math.ceil(labelMax + indexWidth + 18), flat = Math.ceil(labelMax * .71) + 8;
    const cell = Math.floor(Math.min(46, Math.max(18, (width - left - flat - 4) / n)));
    // Narrow columns need headings that lean less, or they would run into each other.
    const lean = cell < 24 ? Math.PI / 3 : Math.PI / 4;
    const rise = Math.ceil(labelMax * Math.sin(lean)) + 8, over = Math.ceil(labelMax * Math.cos(lean)) + 8;
    return { left, head: rise + 26, cell, lean, width: left + n * cell + over + 4, height: rise + 26 + n * cell + 2 };
  }
  function paint(ctx, g, view, css) {
    const { left, head: up, cell } = g, data = head(S.layer, S.head), max = top(S.layer, S.head), lut = LUTS[theme()];
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
      const x = data[q * n + k], colour = lut[step(x, max)];
      ctx.globalAlpha = S.word < 0 || S.word === q || S.word === k ? 1 : .26;
      ctx.fillStyle = colour.css;
      ctx.fillRect(X(k), Y(q), cell - gap, cell - gap);
      if (cell >= 24) {
        ctx.fillStyle = colour.ink;
        ctx.fillText(percent(x, 0), X(k) + (cell - gap) / 2, Y(q) + (cell - gap) / 2 + .5);
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
      const lit = S.word === q || (at && at.q === q), y = Y(q) + cell / 2, colour = mark(q, lit);
      ctx.globalAlpha = faded(q, lit);
      ctx.fillStyle = colour; ctx.textAlign = 'right';
      ctx.fillText(labels[q], left - 10, y);
      ctx.font = `11px ${font}`; ctx.fillStyle = css.soft;
      ctx.fillText(q + 1, indexWidth - 2, y);
    }
    ctx.restore();
    ctx.save();
    ctx.beginPath(); ctx.rect(left - 6, 0, view.w, up - 2); ctx.clip();
    ctx.textBaseline = 'middle'; ctx.textAlign = 'left';
    for (let k = Math.max(0, k0 - Math.ceil(up / cell)); k < k1; k++) {
      const lit = S.word === k || (at && at.k === k);
      ctx.save();
      ctx.globalAlpha = faded(k, lit);
      ctx.translate(X(k) + (cell - gap) / 2, up - 9);
      // Narrow columns have room for every fifth number, or the tenth.
      const every = [1, 5, 10].find(m => m * cell > indexWidth + 2) || 20;
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
  function colours() {
    const style = getComputedStyle(root), get = name => style.getPropertyValue('--' + name).trim();
    return { card: get('card'), ink: get('ink'), soft: get('soft'), accent: get('accent') };
  }
  function draw() {
    // The scroll bar's room is kept out of the width so that short texts need none.
    const room = stage.parentElement.clientWidth;
    G = geometry(room);
    const limit = Math.max(420, Math.min(860, innerHeight - 140));
    const view = { w: Math.min(room, G.width), h: Math.min(G.height, limit), x: 0, y: 0 };
    $('space').style.width = G.width + 'px';
    $('space').style.height = G.height + 'px';
    const bars = { x: G.width > room ? 16 : 0, y: G.height > limit ? 16 : 0 };
    stage.style.height = Math.min(G.height + bars.x, limit) + 'px';
    stage.style.width = Math.min(room, G.width + bars.y) + 'px';
    view.w = Math.min(stage.clientWidth, G.width);
    view.h = Math.min(stage.clientHeight, G.height);
    view.x = stage.scrollLeft; view.y = stage.scrollTop;
    const ratio = devicePixelRatio || 1;
    if (map.width !== Math.round(view.w * ratio) || map.height !== Math.round(view.h * ratio)) {
      map.width = Math.round(view.w * ratio); map.height = Math.round(view.h * ratio);
      map.style.width = view.w + 'px'; map.style.height = view.h + 'px';
    }
    const ctx = map.getContext('2d');
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint(ctx, G, view, colours());
  }
  let asked = false;
  const drawSoon = () => { if (!asked) { asked = true; requestAnimationFrame(() => { asked = false; draw(); }); } };

  function save() {
    const g = geometry(900), ratio = 2, canvas = document.createElement('canvas');
    const title = `${T.layerShort(S.layer + 1)} · ${T.headShort(S.head + 1)} · ${D.model}`;
    const pad = 20, extra = 70, w = Math.max(g.width, 420) + 2 * pad, h = g.height + 2 * pad + extra;
    // Browsers give up on canvases somewhat above this.
    if (w * h * ratio * ratio > 2.4e8 || Math.max(w, h) * ratio > 16000) { $('readout').textContent = T.tooLarge; return; }
    canvas.width = w * ratio; canvas.height = h * ratio;
    const ctx = canvas.getContext('2d'), css = colours();
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
      const link = el('a', { href: URL.createObjectURL(blob), download: `attention-layer${S.layer + 1}-head${S.head + 1}.png` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }

  // ---- small pictures of all heads ----
  const POOL = 64;
  function thumbs() {
    const box = $('thumbs'), size = Math.min(n, POOL), many = D.heads > 4;
    // Three heads to a row on a small picture would be lost; twelve still have to fit.
    box.style.gridTemplateColumns = `auto repeat(${D.heads}, ${many ? 34 : Math.min(72, Math.floor(208 / D.heads))}px)`;
    box.setAttribute('aria-label', T.allHeads);
    const cells = [el('span')];
    for (let h = 0; h < D.heads; h++) cells.push(el('span', { class: 'axis', text: h + 1, title: T.headShort(h + 1) }));
    const lut = LUTS[theme()];
    for (let l = 0; l < D.layers; l++) {
      cells.push(el('span', { class: 'axis', text: many ? l + 1 : T.layerShort(l + 1) }));
      for (let h = 0; h < D.heads; h++) {
        const canvas = el('canvas', { width: size, height: size, 'aria-hidden': 'true' });
        const image = new ImageData(size, size), data = head(l, h), max = top(l, h);
        const seen = new Float32Array(size * size);
        // The largest weight under a dot, for a mean would hide the very peaks that one looks for.
        for (let q = 0; q < n; q++) for (let k = 0; k < n; k++) {
          const i = Math.floor(q * size / n) * size + Math.floor(k * size / n);
          if (data[q * n + k] > seen[i]) seen[i] = data[q * n + k];
        }
        seen.forEach((x, i) => image.data.set([...lut[step(x, max)].c, 255], 4 * i));
        canvas.getContext('2d').putImageData(image, 0, 0);
        const chosen = l === S.layer && h === S.head;
        const button = el('button', { type: 'button', class: 'thumb', role: 'radio', 'aria-checked': chosen, 'aria-label': T.thumb(l + 1, h + 1), title: T.thumb(l + 1, h + 1), tabIndex: chosen ? 0 : -1 }, canvas);
        button.addEventListener('click', () => choose(l, h));
        cells.push(button);
      }
    }
    const focused = box.contains(document.activeElement);
    box.replaceChildren(...cells);
    if (focused) box.querySelector('[aria-checked="true"]').focus();
    $('thumb-note').textContent = T.thumbNote(n > POOL, S.scale === 'head');
  }
  function markThumb() {
    document.querySelectorAll('.thumb').forEach((b, i) => {
      const chosen = i === S.layer * D.heads + S.head;
      b.setAttribute('aria-checked', chosen);
      b.tabIndex = chosen ? 0 : -1;
    });
  }
  $('thumbs').addEventListener('keydown', e => {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[e.key];
    if (!move) return;
    e.preventDefault();
    choose(S.layer + move[0], S.head + move[1]);
    document.querySelector('.thumb[aria-checked="true"]').focus();
  });

  // ---- words with their scores ----
  const kana = /[\u3040-\u30ff]/.test(D.text);
  const rtl = (D.text.match(RTL) || []).length > (D.text.match(/[A-Za-z]/g) || []).length;
  function tiles() {
    const box = $('tiles'), most = scores.reduce((m, s) => Math.max(m, Math.abs(s) || 0), 0) || 1;
    box.dir = rtl ? 'rtl' : 'ltr';
    box.classList.toggle('long', n > 80);
    box.replaceChildren(...words.map((_, i) => {
      const s = scores[i], bar = el('i', { class: s < 0 ? 'against' : 'for' }), special = D.words[i].special;
      bar.style.height = (Math.abs(s) / most * 46 || 0).toFixed(2) + '%';
      const tile = el('button', { type: 'button', class: special ? 'tile special' : 'tile', 'aria-pressed': S.word === i, 'aria-label': T.tile(plain[i], i + 1, signed(s)), title: special ? T.special : clip(plain[i], 200) },
        el('span', { class: 'up' }, bar), el('bdi', { class: 'word', text: clip(plain[i]) }), el('span', { class: 'strip' }), el('span', { class: 'score', text: special ? '' : signed(s) }));
      if (special) tile.querySelector('.score').textContent = '\u00a0';
      tile.addEventListener('click', () => hold(i));
      return tile;
    }));
    strips();
  }
  // Under each word, the colour of what it gets from the word that is held or pointed at.
  function strips() {
    const q = S.word >= 0 ? S.word : hover ? hover.q : S.query, data = head(S.layer, S.head), max = top(S.layer, S.head);
    document.querySelectorAll('.tile').forEach((tile, i) => {
      tile.setAttribute('aria-pressed', S.word === i);
      tile.querySelector('.strip').style.background = q < 0 ? 'none' : LUTS[theme()][step(data[q * n + i], max)].css;
    });
  }

  // ---- what is said of a cell or a word ----
  const rankIn = (row, k) => 1 + row.reduce((c, x) => c + (x > row[k] ? 1 : 0), 0);
  const named = (i, self) => i === self ? T.self : T.q(clip(plain[i]));
  function cellSentence(q, k) {
    const row = head(S.layer, S.head).subarray(q * n, q * n + n);
    return T.cell(T.q(clip(plain[q])), q + 1, named(k, q), k + 1, percent(row[k], 2), rankIn(row, k), n, exact(row[k]));
  }
  function heldSentence(w) {
    const data = head(S.layer, S.head);
    const best = value => [...Array(n).keys()].sort((a, b) => value(b) - value(a)).slice(0, 3)
      .map(i => T.share(named(i, w), percent(value(i), 1))).join(T.list);
    return T.held(T.q(clip(plain[w])), best(k => data[w * n + k]), best(q => data[q * n + w]));
  }
  function read(aloud) {
    const at = hover || (S.query >= 0 ? { q: S.query, k: S.key } : null);
    const text = at ? cellSentence(at.q, at.k) : S.word >= 0 ? heldSentence(S.word) : T.hint;
    $('readout').textContent = text;
    if (aloud) $('say').textContent = text;
  }
  function hold(i) {
    S.word = S.word === i ? -1 : i;
    S.query = S.key = -1; hover = null; tip.hidden = true;
    strips(); read(true); draw(); writeHash();
  }

  // ---- pointer and keys on the large picture ----
  function under(e) {
    const box = stage.getBoundingClientRect(), x = e.clientX - box.left, y = e.clientY - box.top;
    const cellAt = (p, edge, scroll) => Math.floor((p - edge + scroll) / G.cell);
    let k = x >= G.left ? cellAt(x, G.left, stage.scrollLeft) : -1, q = y >= G.head ? cellAt(y, G.head, stage.scrollTop) : -1;
    // Column headings lean to the right, so that what is pointed at lies further left.
    if (y < G.head) k = Math.floor((x - Math.max(0, G.head - 22 - y) / Math.tan(G.lean) - G.left + stage.scrollLeft) / G.cell);
    const ok = i => i >= 0 && i < n ? i : -1;
    return { x, y, q: ok(q), k: ok(k), inRows: x < G.left, inColumns: y < G.head };
  }
  stage.addEventListener('pointermove', e => {
    const p = under(e), cell = !p.inRows && !p.inColumns && p.q >= 0 && p.k >= 0;
    stage.style.cursor = cell ? 'crosshair' : (p.inRows ? p.q : p.inColumns ? p.k : -1) >= 0 ? 'pointer' : 'default';
    const next = cell ? { q: p.q, k: p.k } : null;
    tip.hidden = !cell;
    if (cell) {
      const row = head(S.layer, S.head).subarray(p.q * n, p.q * n + n);
      if (!hover || hover.q !== p.q || hover.k !== p.k) {
        tip.replaceChildren(el('b', { text: `${percent(row[p.k], 2)} %` }), el('span', {}, el('bdi', { text: clip(plain[p.q], 24) }), ' → ', el('bdi', { text: clip(plain[p.k], 24) })), el('div', { text: T.rank(rankIn(row, p.k), n) }));
      }
      const right = p.x > stage.clientWidth * .62;
      tip.style.left = right ? 'auto' : p.x + 18 + 'px';
      tip.style.right = right ? stage.parentElement.clientWidth - p.x + 14 + 'px' : 'auto';
      tip.style.top = p.y + 16 + 'px';
    }
    if (JSON.stringify(next) !== JSON.stringify(hover)) { hover = next; strips(); read(); drawSoon(); }
  });
  stage.addEventListener('pointerleave', () => { hover = null; tip.hidden = true; strips(); read(); drawSoon(); });
  stage.addEventListener('click', e => {
    const p = under(e);
    if (p.inRows && p.inColumns) return;
    if (p.inRows && p.q >= 0) hold(p.q);
    else if (p.inColumns && p.k >= 0) hold(p.k);
    else if (p.q >= 0 && p.k >= 0) { S.query = p.q; S.key = p.k; read(true); draw(); writeHash(); }
  });
  stage.addEventListener('scroll', drawSoon);
  stage.addEventListener('keydown', e => {
    const end = n - 1, q = S.query, k = S.key, far = e.ctrlKey || e.metaKey;
    const go = { ArrowLeft: [q, k - 1], ArrowRight: [q, k + 1], ArrowUp: [q - 1, k], ArrowDown: [q + 1, k], Home: [far ? 0 : q, 0], End: [far ? end : q, end] }[e.key];
    if (go) {
      e.preventDefault();
      const within = i => Math.min(end, Math.max(0, i));
      [S.query, S.key] = q < 0 ? [0, 0] : go.map(within);
      hover = null; tip.hidden = true;
      reveal(); strips(); read(true); draw(); writeHash();
    } else if ((e.key === 'Enter' || e.key === ' ') && q >= 0) { e.preventDefault(); const [a, b] = [q, k]; hold(a); S.query = a; S.key = b; draw(); writeHash(); }
  });
  function reveal() {
    if (S.query < 0 && S.word < 0) return;
    const [q, k] = S.query < 0 ? [S.word, S.word] : [S.query, S.key];
    // Some cells around it stay in sight too.
    const near = (scroll, size, at) => Math.min(at - 3 * G.cell, Math.max(scroll, at + 4 * G.cell - size));
    stage.scrollLeft = near(stage.scrollLeft, stage.clientWidth - G.left - 4, k * G.cell);
    stage.scrollTop = near(stage.scrollTop, stage.clientHeight - G.head - 4, q * G.cell);
  }

  // ---- the table: the same numbers for those who do not see the picture, and for copying ----
  let tabled = '';
  function table() {
    const stamp = [S.layer, S.head, S.lang].join();
    // A large table is made only when it is looked at.
    if (stamp === tabled || !($('numbers-fold').open || n <= 60)) return;
    tabled = stamp;
    const data = head(S.layer, S.head);
    const name = (tag, scope, i) => el(tag, { scope, title: clip(plain[i], 200) }, el('small', { text: i + 1 }), el('bdi', { text: clip(plain[i]) }));
    const rows = words.map((_, q) => {
      const tr = el('tr', {}, name('th', 'row', q));
      let sum = 0;
      for (let k = 0; k < n; k++) { const x = data[q * n + k]; sum += x; tr.append(el('td', { text: x.toFixed(4) })); }
      tr.append(el('td', { class: 'sum', text: sum.toFixed(4) }));
      return tr;
    });
    $('numbers').replaceChildren(el('caption', { text: T.caption(S.layer + 1, S.head + 1) }),
      el('thead', {}, el('tr', {}, el('th', { scope: 'col', text: `${T.query} ${T.key}` }), ...words.map((_, k) => name('th', 'col', k)), el('th', { scope: 'col', class: 'sum', text: T.sum }))),
      el('tbody', {}, ...rows));
    root.dataset.table = `${S.layer + 1},${S.head + 1}`;
  }

  // ---- the rest of the page ----
  function classes() {
    const halves = D.parts ? [D.parts.attention, D.parts.ngrams] : [];
    const of = (list, label) => { const p = list.find(p => p.label === label); return p ? `${percent(p.probability, 1)} %` : '–'; };
    const share = D.parts && [1, D.parts.attention_weight, 1 - D.parts.attention_weight];
    const headings = D.parts ? T.halves.map((t, i) => el('th', { scope: 'col' }, el('div', { text: t }), el('div', { text: `${percent(share[i], 0)} %` }))) : [];
    const rows = D.probabilities.map(p => {
      const fill = el('span', { class: 'fill' });
      fill.style.width = percent(p.probability, 2) + '%';
      return el('tr', { class: p.label === D.label ? 'chosen' : '' }, el('th', { scope: 'row', title: p.label }, el('bdi', { text: p.label })), el('td', { class: 'meter', 'aria-hidden': 'true' }, el('span', { class: 'track' }, fill)),
        el('td', { class: 'whole', text: `${percent(p.probability, 1)} %` }), ...halves.map(half => el('td', { class: 'half', text: of(half, p.label) })));
    });
    const top = D.parts ? [el('thead', {}, el('tr', {}, el('th', { 'aria-label': T.classHead }), el('td', { 'aria-hidden': 'true' }), ...headings))] : [];
    $('classes').replaceChildren(...top, el('tbody', {}, ...rows));
  }
  const tickTexts = () => { const max = 100 * top(S.layer, S.head), at = t => max * (S.root ? t * t : t); return [0, .5, 1].map(t => at(t).toFixed(t && max < 100 ? 1 : 0) + ' %'); };
  function legend() {
    const lut = LUTS[theme()];
    $('ramp').style.background = `linear-gradient(to right, ${[0, 51, 102, 153, 204, 255].map(i => lut[i].css).join()})`;
    $('ticks').replaceChildren(...tickTexts().map(text => el('span', { text })));
  }
  function place() {
    $('attention-title').textContent = T.attention;
    $('layer-now').textContent = T.layer(S.layer + 1, D.layers);
    $('head-now').textContent = T.head(S.head + 1, D.heads);
    $('layer-back').disabled = S.layer === 0; $('layer-on').disabled = S.layer === D.layers - 1;
    $('head-back').disabled = S.head === 0; $('head-on').disabled = S.head === D.heads - 1;
    stage.setAttribute('aria-label', T.map(S.layer + 1, S.head + 1, n));
  }
  function choose(l, h) {
    S.layer = Math.min(D.layers - 1, Math.max(0, l));
    S.head = Math.min(D.heads - 1, Math.max(0, h));
    hover = null; tip.hidden = true;
    place(); markThumb(); legend(); strips(); read(true); draw(); table(); writeHash();
  }
  function show() {
    T = STRINGS[S.lang];
    const said = phrase => S.lang === 'ja' && Object.hasOwn(D.phrases, phrase) ? D.phrases[phrase] : phrase;
    root.lang = S.lang;
    root.dataset.theme = theme();
    document.title = `${T.title(D.model)} – Chumoku`;
    document.querySelectorAll('[data-t]').forEach(node => { node.textContent = T[node.dataset.t]; });
    document.querySelectorAll('[data-label]').forEach(node => { node.setAttribute('aria-label', T[node.dataset.label]); node.title = T[node.dataset.label]; });
    $('langs').setAttribute('aria-label', T.langs);
    for (const lang of ['en', 'ja']) $('lang-' + lang).setAttribute('aria-pressed', lang === S.lang);
    $('theme').textContent = T.themes[S.theme];
    $('model').textContent = D.model;
    $('label').textContent = D.label;
    const chance = D.probabilities.find(p => p.label === D.label);
    $('chance').textContent = chance ? `${percent(chance.probability, 1)} %` : '';
    $('text').textContent = D.text;
    for (const id of ['text', 'tiles', 'map', 'numbers', 'pieces']) if (kana) $(id).lang = 'ja';
    const cls = T.q(D.attribution.class);
    $('effect-title').textContent = T.effect(cls);
    $('effect-note').textContent = T.effectNote(said(D.attribution.method), said(D.attribution.unit));
    $('for-note').textContent = T.forNote(cls);
    $('against-note').textContent = T.againstNote(cls);
    $('joining').textContent = T.joining(said(D.joining));
    $('numbers-wide').setAttribute('aria-label', T.tableTitle);
    $('scale').replaceChildren(...Object.entries(T.scales).map(([value, text]) => el('option', { value, text, selected: value === S.scale })));
    $('root').checked = S.root;
    $('root').parentElement.title = T.rootHint;
    $('keys-help').replaceChildren(...T.keys.flatMap(([keys, what]) => [el('dt', {}, ...keys.split(' ').map(k => el('kbd', { text: k }))), el('dd', { text: what })]));
    $('pieces').replaceChildren(...words.map((_, w) => el('span', {}, el('small', { text: w + 1 }), ...D.pieces.filter(p => p.word === w).map(p => el('code', { text: p.text })))));
    classes(); place(); thumbs(); tiles(); legend(); read(); draw(); table();
  }

  // ---- controls ----
  const set = change => { Object.assign(S, change); show(); writeHash(); };
  const otherTheme = () => set({ theme: { auto: 'light', light: 'dark', dark: 'auto' }[S.theme] });
  $('lang-en').addEventListener('click', () => set({ lang: 'en' }));
  $('lang-ja').addEventListener('click', () => set({ lang: 'ja' }));
  $('theme').addEventListener('click', otherTheme);
  $('scale').addEventListener('change', e => set({ scale: e.target.value }));
  $('root').addEventListener('change', e => set({ root: e.target.checked }));
  $('save').addEventListener('click', save);
  $('layer-back').addEventListener('click', () => choose(S.layer - 1, S.head));
  $('layer-on').addEventListener('click', () => choose(S.layer + 1, S.head));
  $('head-back').addEventListener('click', () => choose(S.layer, S.head - 1));
  $('head-on').addEventListener('click', () => choose(S.layer, S.head + 1));
  $('numbers-fold').addEventListener('toggle', () => { table(); writeHash(); });
  addEventListener('keydown', e => {
    if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
    const act = {
      '[': () => choose(S.layer - 1, S.head), ']': () => choose(S.layer + 1, S.head),
      ',': () => choose(S.layer, S.head - 1), '.': () => choose(S.layer, S.head + 1),
      l: () => set({ lang: S.lang === 'en' ? 'ja' : 'en' }), t: otherTheme,
      '?': () => { $('help').open = true; $('help').scrollIntoView({ block: 'nearest' }); },
      Escape: () => { S.query = S.key = -1; if (S.word >= 0) hold(S.word); else { strips(); read(); draw(); writeHash(); } },
    }[e.key.length === 1 ? e.key.toLowerCase() : e.key];
    if (act) { e.preventDefault(); act(); }
  });
  system.addEventListener('change', () => { if (S.theme === 'auto') show(); });
  addEventListener('beforeprint', draw);
  new ResizeObserver(drawSoon).observe(stage.parentElement);

  const start = () => { readHash(); show(); reveal(); draw(); };
  addEventListener('hashchange', start);
  start();
  addEventListener('load', () => {
    // What the promise of the footer rests on: nothing was asked for.
    root.dataset.requests = performance.getEntriesByType('resource').length;
    root.dataset.ready = '1';
  });
})();
