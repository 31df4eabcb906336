// The findings of a checkup: filtered by kind, searched, and shown in portions.
(() => {
  const root = document.documentElement, box = document.getElementById('doctor');
  const D = JSON.parse(document.getElementById('doctor-data').textContent);
  const PART = 100;
  const T = {
    en: {
      size: (rows, labels) => `${rows} rows, ${labels} classes.`,
      noise: (share, wrong) => ` Models that were not trained on these texts suggest that about ${share} % of the labels (${wrong} rows) are wrong.`,
      alarms: (n) => ` About ${n} of those listed as likely wrong are expected to be false alarms.`,
      weak: (doubted, n) => ` No label is listed as likely wrong: the models doubt ${doubted} labels, but about ${n} of these would be false alarms.`,
      unjudged: ' Labels are not checked: models trained on the other rows predict no better than the label frequencies.',
      all: 'everything', find: 'Search texts, labels and reasons', line: 'line', label: 'label', text: 'text, and why', score: 'score',
      shown: (n, all) => `${n} of ${all}`, more: 'Show more', none: 'Nothing was found.', part: { data: '', test: 'test: ', unlabelled: 'unlabeled: ' },
      cut: `This page shows the first ${D.most} of each kind; doctor.csv has all.`,
    },
    ja: {
      size: (rows, labels) => `${rows} 行、${labels} クラス。`,
      noise: (share, wrong) => `ラベルの約 ${share} %（${wrong} 行）は、そのテキストを学習に使っていないモデルによれば誤りです。`,
      alarms: (n) => `誤りらしいとするラベルのうち、約 ${n} 個は誤報と見込まれます。`,
      weak: (doubted, n) => `誤りらしいラベルは挙げません。モデルは ${doubted} 個のラベルを疑いますが、約 ${n} 個は誤報と見込まれます。`,
      unjudged: 'ラベルの正誤は判定していません。ほかの行で学習したモデルが、各ラベルの頻度しか学べなかったためです。',
      all: 'すべて', find: 'テキスト・ラベル・理由を検索', line: '行', label: 'ラベル', text: 'テキストと理由', score: 'スコア',
      shown: (n, all) => `${all} 件中 ${n} 件`, more: 'さらに表示', none: '該当するものはありません。', part: { data: '', test: 'テスト：', unlabelled: 'ラベルなし：' },
      cut: `このページには各種類の先頭 ${D.most} 件があります。すべては doctor.csv に。`,
    },
  };
  const el = (tag, props, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(props)) name.includes('-') ? node.setAttribute(name, value) : node[name] = value;
    node.append(...children);
    return node;
  };
  const kinds = new Set(D.kinds.map(kind => kind.key));
  const S = { kind: '', find: '', most: PART };
  const read = () => {
    const p = linked();
    S.kind = kinds.has(p.get('kind')) ? p.get('kind') : '';
    S.find = p.get('find') || '';
    S.most = PART;
  };
  const keep = () => {
    const p = linked();
    for (const name of ['kind', 'find']) S[name] ? p.set(name, S[name]) : p.delete(name);
    link(p);
  };
  const set = change => { Object.assign(S, { most: PART }, change); keep(); list(); };

  const about = el('p', {}), bar = el('div', { className: 'bar' }), input = el('input', { type: 'search' });
  const state = el('p', { role: 'status' }), head = el('tr', {}), body = el('tbody', {});
  const more = el('button', { type: 'button' }), cut = el('p', {});
  const table = el('table', {}, el('thead', {}, head), body);
  box.append(about, bar, el('div', { className: 'bar' }, input), state, el('div', { className: 'list' }, table), el('div', { className: 'bar' }, more), cut);
  const buttons = [{ key: '', count: D.kinds.reduce((sum, kind) => sum + kind.count, 0) }, ...D.kinds].map(kind => {
    const button = el('button', { type: 'button' });
    button.addEventListener('click', () => set({ kind: kind.key }));
    return [kind, button];
  });
  bar.append(...buttons.map(([, button]) => button));
  input.addEventListener('input', () => set({ find: input.value }));
  // Letters typed into the field are not shortcuts.
  input.addEventListener('keydown', e => e.stopPropagation());
  more.addEventListener('click', () => { S.most += PART; list(); });

  const lang = () => (root.lang === 'ja' ? 'ja' : 'en');
  function row(found) {
    const code = lang(), t = T[code], suggestion = found.suggestion[code];
    const label = el('td', { className: 'label' }, el('bdi', {}, found.label));
    const isLabel = ['wrong_label', 'conflict', 'odd_label', 'label_next'].includes(found.kind);
    if (isLabel && suggestion) label.append(' → ', el('ins', {}, el('bdi', {}, suggestion)));
    const text = el('td', { className: 'text' }, el('bdi', {}, found.text));
    if (found.kind === 'encoding' && suggestion) text.append(' → ', el('ins', {}, el('bdi', {}, suggestion)));
    text.append(el('span', { className: 'reason' }, found.reason[code]));
    const score = found.score === null ? '' : found.score.toFixed(2);
    return el('tr', { 'data-kind': found.kind }, el('th', { scope: 'row' }, t.part[found.part] + found.line), label, text, el('td', { className: 'score' }, score));
  }
  function list() {
    const code = lang(), t = T[code], wanted = S.find.toLowerCase();
    for (const [kind, button] of buttons) button.setAttribute('aria-pressed', kind.key === S.kind);
    const has = found => [found.text, found.label, found.suggestion[code], found.reason[code]].some(text => text.toLowerCase().includes(wanted));
    const found = D.findings.filter(found => (!S.kind || found.kind === S.kind) && (!wanted || has(found)));
    const shown = found.slice(0, S.most);
    body.replaceChildren(...shown.map(row));
    table.hidden = !shown.length;
    state.textContent = shown.length ? t.shown(shown.length, found.length) : t.none;
    more.hidden = shown.length === found.length;
    root.dataset.shown = shown.length;
  }
  function say() {
    const code = lang(), t = T[code], number = x => x.toLocaleString(code);
    about.textContent = t.size(number(D.rows), number(D.labels))
      + (!D.noise.informed ? t.unjudged
        : D.noise.weak ? t.weak(number(D.noise.doubted), number(D.noise.alarms))
          : t.noise((100 * D.noise.share).toFixed(1), number(D.noise.rows)) + t.alarms(number(D.noise.listed)));
    for (const [kind, button] of buttons) button.replaceChildren(kind[code] || t.all, ' ', el('b', {}, number(kind.count)));
    input.placeholder = t.find;
    input.setAttribute('aria-label', t.find);
    if (input.value !== S.find) input.value = S.find;
    head.replaceChildren(...[t.line, t.label, t.text, t.score].map(name => el('th', { scope: 'col' }, name)));
    more.textContent = t.more;
    cut.textContent = t.cut;
    cut.hidden = !D.kinds.some(kind => kind.count > D.most);
    list();
  }
  document.addEventListener('shown', say);
  addEventListener('hashchange', () => { read(); say(); });
  read();
  say();
})();
