// The spelling of numbers, as in grid.rs, and of their sums.

// Rounds decimals as Rust does: ties go to the even digit.
const decimals = (x, write, n) => {
  const sign = x < 0 ? '-' : '', a = Math.abs(x), text = write(a, n);
  const [exact, power] = write(a, Math.min(100, n + 60)).split('e');
  const point = exact.indexOf('.') + 1, after = exact.slice(point + n);
  if (!/^50*$/.test(after)) return sign + text;
  // The truncated digits are the lower neighbor; browsers write the upper one.
  const lower = n ? exact.slice(0, point + n) : exact.slice(0, point - 1);
  return sign + (/[02468]$/.test(lower) ? lower + (power ? 'e' + power : '') : text);
};
const power = text => text.replace('e+', 'e');
const odd = x => Number.isNaN(x) ? 'NaN' : x > 0 ? '∞' : '-∞';
const fixed = x => { const text = decimals(x, (a, n) => a.toFixed(n), digits); return /^-[0.]*$/.test(text) ? text.slice(1) : text; };
const scientific = (x, n) => power(decimals(x, (a, n) => a.toExponential(n), n));
// Remainders of cancellation, which are 0.0000 in sums too.
const NOISE = 1e-15;
const isWhole = x => Number.isInteger(x) && Math.abs(x) < 1e9;
const writer = a => {
  const all = a.flat().filter(Number.isFinite), size = all.reduce((m, x) => Math.max(m, Math.abs(x)), 0);
  const whole = all.every(isWhole), far = size >= 1e9 || (size > NOISE && size < 10 ** (1 - digits));
  return x => !Number.isFinite(x) ? odd(x) : whole ? String(x + 0) : far ? scientific(x, digits) : fixed(x);
};
// A number of an operand. Arithmetic and `spelled` note that it was used.
class Cell {
  constructor(used, id, i, j, x) { Object.assign(this, { used, id, i, j, x }); }
  valueOf() { this.used.add(this); return this.x; }
}
// Marks the text of an operand's number, so that it can become a button.
const plain = x => x instanceof Cell ? `\u0001${x.id},${x.i},${x.j}\u0002${spelled(+x)}\u0003` : spelled(x);
const spelled = x => {
  if (!Number.isFinite(x)) return odd(x);
  if (isWhole(x)) return String(x + 0);
  const a = Math.abs(x), isNoise = a <= NOISE && digits <= 14, text = fixed(x);
  return a >= 1e9 || (a < 10 ** (1 - digits) && !isNoise && Math.abs(text - x) > a / 100) ? scientific(x, 2).replace('.00e', 'e') : text;
};

// One number of a step, term by term, as in expansion.rs. The last ones are not spelled out there.
const signed = x => x < 0 ? `(${plain(x)})` : plain(x);
const joined = (parts, lang) => {
  if (parts.length <= MOST) return parts.join(' + ');
  const n = parts.length - MOST, more = lang === 'ja' ? `…（他 ${n} 項）` : `… (${n} more)`;
  return [...parts.slice(0, MOST - 1), more, parts[parts.length - 1]].join(' + ');
};
const terms = all => lang => joined(all.map((x, k) => k ? signed(x) : plain(x)), lang);
const products = (all, bias) => lang => {
  const parts = all.map(([a, b], k) => `${k ? signed(a) : plain(a)}·${signed(b)}`);
  if (bias !== undefined) parts.push(signed(bias));
  return parts.length ? joined(parts, lang) : plain(0);
};
const quotient = (a, b) => () => `${plain(a)} / ${signed(b)}`;
const largest = all => () => `max(${all.map(plain).join(', ')})`;
const pairs = (a, b) => a.map((x, k) => [x, b[k]]);
const expansions = {
  Sum: ([a, b], p, i, j) => terms([a[i][j], b[i][j]]),
  Hadamard: ([a, b], p, i, j) => products([[a[i][j], b[i][j]]]),
  Product: ([a, b, c], p, i, j) => products(pairs(a[i], column(b, j)), c ? c[0][j] : undefined),
  Mixture: ([a, b], p, i, j) => products(pairs(a[i], column(b, j)).filter(([s, x]) => +s !== 0 || Number.isFinite(+x))),
  ProductTransposed: ([a, b], p, i, j) => products(pairs(a[i], b[j])),
  TransposedProduct: ([a, b], p, i, j) => products(pairs(column(a, i), column(b, j))),
  PairSums: ([a, b], p, i, j) => terms([a[Math.floor(i / b.length)][j], b[i % b.length][j]]),
  PairGradient: ([a], p, i, j) => terms(column(pairRows(a, i, p), j)),
  Reshaped: ([a], { columns }, i, j) => terms([reshaped(a, i * columns + j)]),
  ProductsTransposed: (of, { pairs: n }, i, j) => {
    const all = Array.from({ length: n }, (_, k) => pairs(of[2 * k][i], of[2 * k + 1][j])).flat();
    const added = of.slice(2 * n).map(a => a[i][j]);
    return n ? products(all, added.length ? added.reduce((s, x) => s + x) : undefined) : terms(added);
  },
  Difference: ([a, b], { over }, i, j) => () => over === 1 ? `${plain(a[i][j])} − ${signed(b[i][j])}`
    : `(${plain(a[i][j])} − ${signed(b[i][j])}) / ${plain(over)}`,
  SoftmaxGradient: ([a, g], p, i, j) => () =>
    `${plain(a[i][j])}·(${plain(g[i][j])} − ${signed(sum(a[i].length, k => share(a[i][k], g[i][k])))})`,
  Spread: ([a], { over }, i, j) => quotient(a[0][j], over),
  ColumnSums: ([a], p, i, j) => terms(column(a, j)),
  ColumnProducts: ([a, b], p, i, j) => products(pairs(column(a, j), column(b, j))),
  Turned: (of, p, i, j) => () => {
    const { t, other, side } = angle(of, p, i, j);
    return `${plain(of[0][i][j])}·cos ${plain(t)}${side < 0 ? ' − ' : ' + '}${signed(other)}·sin ${plain(t)}`;
  },
  Scaled: ([a], p, i, j) => {
    const factor = factorOf(p), root = rootOf(factor);
    if (root === 1) return terms([a[i][j]]);
    return root ? () => `${plain(a[i][j])} / √${root}` : products([[factor, a[i][j]]]);
  },
  Biased: ([a], { bias }, i, j) => terms([a[i][j], real(bias[i][j])]),
  Largest: ([a], p, i) => largest(a[i]),
  Exponentials: ([a, m], p, i, j) => () => m ? `exp(${plain(a[i][j])} − ${signed(m[i][0])})` : `exp(${plain(a[i][j])})`,
  RowSums: ([a], p, i) => terms(a[i]),
  Shares: ([a, z], p, i, j) => quotient(a[i][j], z[i][0]),
  Normalised: ([a, g, b], { epsilon }, i, j) => () => {
    const row = a[i], m = total(row) / row.length;
    return `${g ? plain(g[0][j]) + '·' : ''}(${plain(row[j])} − ${signed(m)}) / √(${plain(spread(row))} + ${plain(epsilon)})`
      + (b ? ` + ${signed(b[0][j])}` : '');
  },
  RmsNormalised: ([a, g], { epsilon }, i, j) => () =>
    `${g ? plain(g[0][j]) + '·' : ''}${signed(a[i][j])} / √(${plain(squares(a[i]) / a[i].length)} + ${plain(epsilon)})`,
  Pooled: ([a], { poolings }, i, j) => {
    const c = column(a, j % a[0].length), pooling = poolings[Math.floor(j / a[0].length)];
    if (pooling === 'max') return largest(c);
    if (pooling === 'first' || pooling === 'last') return terms([c.at(pooling === 'first' ? 0 : -1)]);
    return lang => `(${terms(c)(lang)}) / ${plain(pooling === 'mean' ? c.length : Math.sqrt(c.length))}`;
  },
  Activated: ([a], { curve }, i, j) => () => {
    const x = plain(a[i][j]), own = signed(a[i][j]);
    return { relu: `max(0, ${x})`, gelu: `${x}/2 · (1 + erf(${x}/√2))`, silu: `${x} / (1 + exp(−${own}))`, tanh: `tanh(${x})`,
      gelu_tanh: `${x}/2 · (1 + tanh(√(2/π)·(${x} + 0.044715·${own}³)))` }[curve];
  },
  Gate: ([a, b], { from, tanh }, i, j) => () =>
    `${tanh ? 'tanh' : 'σ'}(${plain(a[i][from[0] + j])} + ${signed(b[i][from[1] + j])})`,
  Gated: ([a, b, c, d], { complement }, i, j) =>
    products([[complement ? 1 - a[i][j] : a[i][j], b[i][j]], [c[i][j], d[i][j]]]),
  GateGradient: ([a, g], { tanh }, i, j) => () => {
    const y = signed(a[i][j]);
    return tanh ? `${plain(g[i][j])}·(1 − ${y}²)` : `${plain(g[i][j])}·${y}·(1 − ${y})`;
  },
  Complement: ([a, g], p, i, j) => products([[1 - a[i][j], g[i][j]]]),
  Between: ([g, a, b], p, i, j) => () => `${plain(g[i][j])}·(${plain(a[i][j])} − ${signed(b[i][j])})`,
  Slope: ([a], { curve }, i, j) => () => {
    const x = plain(a[i][j]), s = plain(logistic(a[i][j]));
    const t = plain(Math.tanh(Math.sqrt(2 / Math.PI) * (a[i][j] + 0.044715 * a[i][j] ** 3)));
    return { relu: `[${x} > 0]`, tanh: `1 − tanh(${x})²`, gelu: `Φ(${x}) + ${x}·φ(${x})`, silu: `${s}·(1 + ${x}·(1 − ${s}))`,
      gelu_tanh: `(1 + ${t})/2 + ${x}/2·(1 − (${t})²)·√(2/π)·(1 + 0.134145·${x}²)` }[curve];
  },
  Logarithms: ([a], p, i, j) => () => `ln(${plain(a[i][j])})`,
  CrossEntropy: ([t, l]) => lang => {
    const all = t.flatMap((row, i) => pairs(row, l[i])).filter(([s]) => +s !== 0);
    return `−(${all.length ? products(all)(lang) : ''})${t.length === 1 ? '' : ` / ${plain(t.length)}`}`;
  },
  UnitLength: ([a], p, i, j) => quotient(a[i][j], length(a[i])),
  UnitGradient: ([a, u, g], p, i, j) => () =>
    `(${plain(g[i][j])} − ${signed(u[i][j])}·${signed(along(u, g, i))}) / ${plain(length(a[i]))}`,
  NormGradient: (of, p, i, j) => () => {
    const { own, center, along, under, epsilon } = normGradient(of, p, i);
    return `(${plain(own[j])}${p.rms ? '' : ` − ${signed(center)}`} − ${signed(of[1][i][j])}·${signed(along)}) / √(${plain(under)} + ${plain(epsilon)})`;
  },
  SoftmaxJacobian: ([a], { row }, i, j) => () => {
    const [x, y] = [a[row][i], a[row][j]].map(plain);
    return i === j ? `${x}·(1 − ${x})` : `−${x}·${y}`;
  },
  Moment: ([g, m], { keep, square }, i, j) => {
    if (!square) return products([...(m ? [[keep, m[i][j]]] : []), [1 - keep, g[i][j]]]);
    return () => `${m ? `${plain(keep)}·${signed(m[i][j])} + ` : ''}${plain(1 - keep)}·(${plain(g[i][j])})²`;
  },
  Corrected: ([a], { left }, i, j) => quotient(a[i][j], left),
  Update: ([m, v], { rate, epsilon }, i, j) => () => `${plain(rate)}·${signed(m[i][j])} / (√${plain(v[i][j])} + ${plain(epsilon)})`,
  Stepped: ([w, d], { kept }, i, j) => kept === 1 ? () => `${plain(w[i][j])} − ${signed(d[i][j])}`
    : products([[kept, w[i][j]]], -d[i][j]),
  Columns: ([a], { from }, i, j) => terms([a[i][from + j]]),
  Joined: (of, p, i, j) => {
    let k = 0;
    while (j >= of[k][i].length) j -= of[k++][i].length;
    return terms([of[k][i][j]]);
  },
  OneHot: ([a], p, i, j) => () => `[${plain(a[i][j])} = ${largest(a[i])()}]`,
  Masked: ([a], p, i, j) => isSeen(p, i, j) ? terms([a[i][j]]) : lang => lang === 'ja' ? '−∞（マスク）' : '−∞ (masked)',
  Placed: ([a, g], { pooling }, i, j) => {
    const c = column(a, j), at = taken[pooling](c);
    return pooling === 'max' ? () => `${plain(g[0][j])}·[${plain(c[i])} = ${largest(c)()}]` : products([[g[0][j], at === i ? 1 : 0]]);
  },
  // The state of a token is a row of a later step.
  Before: (of, { state, source }, i, j) => i ? terms([source[i - 1][j]]) : terms([of[state ? 4 : 3]?.[0][j] ?? 0]),
  Later: (of, p, i, j) => {
    const found = laterTerms(of, p)[i + 1];
    if (!found) return () => plain(0);
    return p.state ? terms([found.ofState[j]]) : products(pairs(of[1][j], found.inside), p.cell === 'gru' ? found.straight[j] : undefined);
  },
};
