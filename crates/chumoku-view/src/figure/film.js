// The player of a film: one head's weights, frame after frame, with the words on both axes.
(() => {
  const root = document.documentElement, box = document.getElementById('film');
  const D = JSON.parse(document.getElementById('film-data').textContent);
  const still = matchMedia('(prefers-reduced-motion: reduce)');
  const count = D.frames.length, n = D.rows.length, m = D.columns.length;
  const SVG = document.querySelector('svg').namespaceURI;
  const T = {
    en: {
      title: place => `The film: ${place}`, play: '▶ Play', pause: '❚❚ Pause', frame: 'frame', head: 'head', keys: 'keys: words that are looked at', queries: 'queries: words that look',
      at: ([epoch, step], i) => `frame ${i + 1} of ${count}: epoch ${epoch}, step ${step}`, place: head => `layer ${D.layer + 1}, head ${head + 1}`,
      cell: (a, b, x) => `${a} → ${b}: ${x} %`, help: 'Keys: space plays and pauses, ← and → step, Home and End go to the first and the last frame.',
      pooled: 'A cell shows the largest of several weights.', some: `${count} of ${D.recorded} recorded frames.`,
    },
    ja: {
      title: place => `フィルム：${place}`, play: '▶ 再生', pause: '❚❚ 一時停止', frame: 'コマ', head: 'ヘッド', keys: 'キー：見られる語', queries: 'クエリ：見る語',
      at: ([epoch, step], i) => `${count} コマ中 ${i + 1} コマ目：エポック ${epoch}、ステップ ${step}`, place: head => `第\xa0${D.layer + 1}\xa0層・ヘッド ${head + 1}`,
      cell: (a, b, x) => `${a} → ${b}：${x} %`, help: 'キー操作：スペースで再生と一時停止、← → で 1 コマずつ、Home と End で最初と最後のコマへ。',
      pooled: '1 マスは、まとめた重みのうち最大の値を表します。', some: `記録された ${D.recorded} コマのうち ${count} コマ。`,
    },
  };
  // Invisible and direction-changing characters must not affect the page's own sentences.
  const plain = text => text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, '␣').replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '\ufffd') || '␣';
  const clip = text => { const c = [...plain(text)]; return c.length > 16 ? c.slice(0, 15).join('') + '…' : c.join(''); };
  const names = [D.rows, D.columns].map(words => words.map((word, i) => `${i + 1} ${clip(word)}`));
  const decoded = new Map();
  // (frames, rows, columns); NaN for masked keys.
  function weights(head) {
    if (!decoded.has(head)) {
      const raw = atob(document.querySelector(`.film-head[data-head="${head}"]`).textContent);
      const view = new DataView(Uint8Array.from(raw, c => c.charCodeAt(0)).buffer);
      decoded.set(head, Float32Array.from({ length: raw.length / 4 }, (_, i) => view.getFloat32(4 * i, true)));
    }
    return decoded.get(head);
  }
  const el = (tag, props, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(props)) name.includes('-') || name === 'for' ? node.setAttribute(name, value) : node[name] = value;
    node.append(...children);
    return node;
  };
  const shape = (tag, props, text) => {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(props)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };

  // ---- elements ----
  const button = el('button', { type: 'button', className: 'play' });
  const slider = el('input', { type: 'range', min: 1, max: count, step: 1, id: 'film-frame' });
  const select = el('select', { id: 'film-head' }, ...D.tops.map((_, head) => el('option', { value: head })));
  const said = el('output', { htmlFor: 'film-frame' });
  const title = el('h2', {}), help = el('p', {}), about = el('p', {});
  const picture = el('div', { className: 'map', tabIndex: 0 });
  box.append(title, el('div', { className: 'bar' }, button, slider, said, select), picture, about, help);
  box.hidden = false;

  const S = { head: D.head, frame: count - 1, playing: false };
  const seen = [];
  let cells = [], timer = 0;
  const lang = () => T[root.lang] || T.en;

  // ---- the picture: rebuilt for a language or a head, only recolored for a frame ----
  function draw() {
    const t = lang(), top = D.tops[S.head], most = Math.max(n, m);
    const cell = most <= 12 ? 44 : most <= 24 ? 34 : most <= 40 ? 20 : 13, size = Math.min(13, Math.max(9, cell * .8));
    const pen = document.createElement('canvas').getContext('2d');
    pen.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
    const room = words => Math.max(...words.map(word => pen.measureText(word).width));
    const every = Math.ceil(size * 1.1 / cell);
    const left = room(names[0]) + 34, above = room(names[1]) * .82 + 34, width = m * cell, height = n * cell;
    const full = Math.max(left + width + 84, left + width + room(names[1]) * .6, left + width / 2 + 130);
    const tall = Math.max(above + height, above + 130) + 12;
    const svg = shape('svg', { viewBox: `0 0 ${full} ${tall}`, width: full, height: tall, role: 'img' });
    const text = (x, y, what, props = {}) => svg.append(shape('text', { x, y, 'font-size': size, class: 'i', ...props }, what));
    text(left + width / 2, 14, t.keys, { class: 'o', 'font-size': 12, 'text-anchor': 'middle' });
    const middle = above + height / 2;
    text(12, middle, t.queries, { class: 'o', 'font-size': 12, 'text-anchor': 'middle', transform: `rotate(-90 12 ${middle})` });
    for (let j = 0; j < m; j += every) {
      const x = left + (j + .5) * cell + size * .3, y = above - 8;
      text(x, y, names[1][j], { transform: `rotate(-55 ${x} ${y})`, 'data-axis': 'keys' });
    }
    for (let i = 0; i < n; i += every) text(left - 8, above + (i + .5) * cell + size * .36, names[0][i], { 'text-anchor': 'end', 'data-axis': 'queries' });
    cells = [];
    const gap = cell >= 12 ? 1 : 0;
    for (let i = 0; i < n; i++) for (let j = 0; j < m; j++) {
      const x = left + j * cell, y = above + i * cell;
      const rect = shape('rect', { x, y, width: cell - gap, height: cell - gap }), says = shape('title', {});
      rect.append(says);
      svg.append(rect);
      const number = cell >= 34 ? shape('text', { x: x + cell / 2 - .5, y: y + cell / 2 + 4, 'font-size': 12, 'text-anchor': 'middle', 'pointer-events': 'none' }) : null;
      if (number) svg.append(number);
      cells.push({ rect, says, number, between: [names[0][i], names[1][j]] });
    }
    for (let k = 0; k <= 24; k++) svg.append(shape('rect', { x: left + width + 26, y: above + 120 * k / 25, width: 14, height: 5.4, class: `s${Math.round(64 * (1 - k / 24))}` }));
    for (const [share, y] of [[1, 4], [.5, 64], [0, 124]]) text(left + width + 46, above + y, String(Number((top * share).toPrecision(3))), { class: 'o', 'font-size': 12 });
    picture.replaceChildren(svg);
    title.textContent = t.title(t.place(S.head));
    // The headings of the page end with the head.
    for (const heading of document.querySelectorAll('h1 bdi')) heading.textContent = heading.textContent.replace(/\d+$/, S.head + 1);
    help.textContent = t.help;
    about.textContent = [D.pooled ? t.pooled : '', count < D.recorded ? t.some : ''].join(' ').trim();
    about.hidden = !about.textContent;
    slider.setAttribute('aria-label', t.frame);
    select.setAttribute('aria-label', t.head);
    [...select.options].forEach((option, head) => { option.textContent = t.place(head); option.selected = head === S.head; });
    color();
  }
  const short = x => x >= .995 ? '1' : x < .005 ? (x > 0 ? '<.01' : '0') : x.toFixed(2).slice(1);
  function color() {
    const t = lang(), top = D.tops[S.head], from = S.frame * n * m, values = weights(S.head);
    cells.forEach(({ rect, says, number, between: [a, b] }, at) => {
      const x = values[from + at], isThere = !Number.isNaN(x), step = Math.round(64 * Math.min(1, Math.max(0, x / top)));
      rect.setAttribute('class', isThere ? `s${step}` : 'f');
      says.textContent = isThere ? t.cell(a, b, (100 * x).toFixed(2)) : '';
      if (number) { number.textContent = isThere ? short(x) : ''; number.setAttribute('class', isThere ? `t${step}` : 'o'); }
    });
    const where = t.at(D.frames[S.frame], S.frame);
    slider.value = S.frame + 1;
    slider.setAttribute('aria-valuetext', where);
    said.textContent = where;
    // While the film plays, a screen reader would never stop speaking.
    said.setAttribute('aria-live', S.playing ? 'off' : 'polite');
    button.textContent = S.playing ? t.pause : t.play;
    picture.firstChild.setAttribute('aria-label', `${t.place(S.head)}, ${where}`);
    root.dataset.frame = S.frame + 1;
    root.dataset.playing = Number(S.playing);
    if (seen[seen.length - 1] !== S.frame + 1) { seen.push(S.frame + 1); root.dataset.seen = seen.slice(-500).join(); }
  }

  // ---- controls ----
  const keep = () => {
    const p = linked();
    p.set('head', S.head + 1);
    p.set('frame', S.frame + 1);
    p.delete('play');
    link(p);
  };
  // The whole film takes eight seconds, each frame between 0.1 and 0.8 seconds; slower without fading.
  const pause = () => still.matches ? 1000 : Math.min(800, Math.max(100, 8000 / count));
  const go = frame => { S.frame = Math.min(count - 1, Math.max(0, frame)); color(); if (!S.playing) keep(); };
  function stop() {
    clearTimeout(timer);
    S.playing = false;
    color();
    keep();
  }
  function next() {
    go(S.frame + 1);
    if (S.frame === count - 1) stop(); else timer = setTimeout(next, pause());
  }
  function play() {
    if (S.playing || count < 2) return;
    S.playing = true;
    if (S.frame === count - 1) S.frame = 0;
    color();
    timer = setTimeout(next, pause());
  }
  const turn = () => S.playing ? stop() : play();
  const step = frame => { if (S.playing) stop(); go(frame); };
  button.addEventListener('click', turn);
  slider.addEventListener('input', () => step(Number(slider.value) - 1));
  select.addEventListener('change', () => { S.head = Number(select.value); draw(); keep(); });
  addEventListener('keydown', e => {
    // Elements with their own use of these keys keep them.
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest?.('button, input, select, summary, .wide, .picture')) return;
    const to = { ArrowLeft: S.frame - 1, ArrowRight: S.frame + 1, Home: 0, End: count - 1 }[e.key];
    if (e.key === ' ') turn(); else if (to !== undefined) step(to); else return;
    e.preventDefault();
  });
  function read() {
    const p = linked(), at = (key, most, old) => { const x = Number(p.get(key)); return Number.isInteger(x) && x >= 1 && x <= most ? x - 1 : old; };
    S.head = at('head', D.tops.length, S.head);
    S.frame = at('frame', count, S.frame);
    draw();
    if (p.get('play') === '1' && !still.matches) play();
  }
  document.addEventListener('shown', () => { if (picture.firstChild) draw(); });
  addEventListener('hashchange', read);
  read();
})();
