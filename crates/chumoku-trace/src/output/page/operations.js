// Evaluates the steps of a trace: the operations of operation.rs, in the same order.
const program = JSON.parse($('program').textContent), { digits, terms: MOST, size: SHOWN, controls, steps } = program;
// The options of attention at the moment.
const on = { ...(controls ?? {}), scale: controls?.scaled ?? false, beta: controls?.beta ?? 1 };
const atStart = { ...on };
// The factor of scores; other factors do not depend on options.
const factorOf = p => p.own === undefined ? p.factor : (on.scale ? controls.scale : 1) * on.beta * p.own;
// n if a factor is 1/√n.
const rootOf = f => {
  const n = Math.round(f ** -2);
  return f > 0 && n >= 1 && n < 1e9 && Math.abs(f - 1 / Math.sqrt(n)) < 4e-15 ? n : null;
};
const isSeen = (p, i, j) => (!on.mask || !p.seen || p.seen[i][j] !== 0) && (!on.causal || j <= i + p.offset);
const real = x => ({ nan: NaN, inf: Infinity, '-inf': -Infinity })[x] ?? x;

// Matrices are arrays of rows.
const sum = (n, f) => { let s = 0; for (let k = 0; k < n; k++) s += f(k); return s; };
const each = (a, f) => a.map((row, i) => row.map((x, j) => f(x, i, j)));
const grid = (n, m, f) => Array.from({ length: n }, (_, i) => Array.from({ length: m }, (_, j) => f(i, j)));
const share = (a, b) => +a === 0 ? 0 : a * b;
const product = (a, b) => grid(a.length, b[0].length, (i, j) => sum(b.length, k => a[i][k] * b[k][j]));
const flip = a => grid(a[0].length, a.length, (i, j) => a[j][i]);
const column = (a, j) => a.map(row => row[j]);
const total = row => sum(row.length, k => row[k]);
const squares = row => sum(row.length, k => row[k] * row[k]);
const most = row => row.reduce((m, x) => Number.isNaN(m) || m > x ? m : x, -Infinity);
const first = row => row.reduce((best, x, j) => +x !== -Infinity && (best < 0 || x > row[best]) ? j : best, -1);
const spread = row => { const m = total(row) / row.length; return squares(row.map(x => x - m)) / row.length; };

const tail = x => {
  let f = x;
  for (let k = 120; k > 0; k--) f = x + k / 2 / f;
  return Math.exp(-x * x) / f / Math.sqrt(Math.PI);
};
const erf = x => {
  const a = Math.abs(x);
  if (a >= 2.5) return Math.sign(x) * (1 - tail(a));
  let term = x, s = x;
  for (let n = 1; Math.abs(term) > 1e-18 * Math.abs(s) && n <= 200; n++) { term *= -a * a / n; s += term / (2 * n + 1); }
  return s * 2 / Math.sqrt(Math.PI);
};
const erfc = x => x < 2.5 ? 1 - erf(x) : tail(x);
const times = (x, factor) => +factor === 0 ? 0 : x * factor;
const normal = x => 0.5 * erfc(-x / Math.SQRT2);
const density = x => Math.exp(-0.5 * x * x) / Math.sqrt(2 * Math.PI);
const logistic = u => 1 / (1 + Math.exp(-u));
const inner = x => Math.sqrt(8 / Math.PI) * (x + 0.044715 * x * x * x);
const curves = {
  relu: [x => x < 0 ? 0 : x, x => Number.isNaN(x) ? x : x > 0 ? 1 : 0],
  gelu: [x => times(x, normal(x)), x => normal(x) + times(x, density(x))],
  gelu_tanh: [x => times(x, logistic(inner(x))), x => {
    const u = inner(x), du = Math.sqrt(8 / Math.PI) * (1 + 3 * 0.044715 * x * x);
    return logistic(u) + times(x * du, logistic(u) * logistic(-u));
  }],
  silu: [x => times(x, logistic(x)), x => logistic(x) + times(x, logistic(x) * logistic(-x))],
  tanh: [Math.tanh, x => 1 - Math.tanh(x) * Math.tanh(x)],
};
const pools = {
  first: c => c[0], last: c => c[c.length - 1], max: most, mean: c => total(c) / c.length,
  mean_sqrt_length: c => total(c) / Math.sqrt(c.length),
};
// The row that pooling takes a column from.
const taken = { first: () => 0, last: c => c.length - 1, max: first };
const normed = (a, gamma, beta, center, under) => a.map(row => {
  const m = center ? total(row) / row.length : 0, root = Math.sqrt(under(row.map(x => x - m)));
  return row.map((x, j) => { let y = (x - m) / root; if (gamma) y *= gamma[0][j]; return beta ? y + beta[0][j] : y; });
});
// The gradient of a normalized row: the subtracted mean, and the root that divides it.
const normGradient = ([a, x, g, gamma], { epsilon, rms }, i) => {
  const n = a[i].length, own = g[i].map((y, j) => gamma ? y * gamma[0][j] : y);
  return { own, center: rms ? 0 : total(own) / n, along: sum(n, j => own[j] * x[i][j]) / n,
    under: rms ? squares(a[i]) / n : spread(a[i]), epsilon };
};
// The rows of the pairs that have a query or a key.
const pairRows = (a, i, { keys, second }) => a.filter((_, k) => (second ? k % keys : Math.floor(k / keys)) === i);
const reshaped = (a, k) => a[Math.floor(k / a[0].length)][k % a[0].length];
const length = row => Math.sqrt(squares(row));
const along = (u, g, i) => sum(u[i].length, k => u[i][k] * g[i][k]);
const angle = ([a, given], { speeds, sign }, i, j) => {
  const half = a[0].length / 2, pair = j % half;
  return { t: i * (sign * (given ? given[0][pair] : speeds[pair])), other: a[i][j < half ? j + half : pair], side: j < half ? -1 : 1 };
};

// A recurrent network, token by token, as in recurrence.rs.
const tokens = ([sums, weight, bias, h0, c0], cell) => {
  const n = weight.length, all = f => Array.from({ length: n }, (_, j) => f(j));
  let before = [h0 ? h0[0] : all(() => 0), c0 ? c0[0] : all(() => 0)];
  return sums.map(row => {
    const [h, c] = before, own = weight[0].map((_, k) => h.reduce((s, x, i) => s + x * weight[i][k], bias ? bias[0][k] : 0));
    const at = gate => j => row[gate * n + j] + own[gate * n + j], gate = k => all(j => logistic(at(k)(j)));
    let gates = [], after = [];
    if (cell === 'rnn') {
      gates = [all(j => Math.tanh(at(0)(j)))];
      after = [gates[0], c];
    } else if (cell === 'lstm') {
      const [i, f, o] = [gate(0), gate(1), gate(3)], g = all(j => Math.tanh(at(2)(j))), to = all(j => f[j] * c[j] + i[j] * g[j]);
      gates = [i, f, g, o];
      after = [all(j => o[j] * Math.tanh(to[j])), to];
    } else {
      const [r, z] = [gate(0), gate(1)], to = all(j => Math.tanh(row[2 * n + j] + r[j] * own[2 * n + j]));
      gates = [r, z, to];
      after = [all(j => (1 - z[j]) * to[j] + z[j] * h[j]), c];
    }
    const token = { before, own, gates, after };
    before = after;
    return token;
  });
};
// The state that each token receives from the previous one.
const recurrence = (of, { cell, state }) => tokens(of, cell).map(token => token.before[state ? 1 : 0]);
const ofTanh = (y, d) => d * (1 - y * y), ofLogistic = (y, d) => d * y * (1 - y);
// For each token, the gradient that it receives from the next one, and the terms that it passes on.
const laterTerms = (of, { cell }) => {
  const weight = of[1], given = of[5], n = weight.length, nothing = () => Array(n).fill(0), found = [];
  let handed = [nothing(), nothing()];
  const all = tokens(of, cell);
  for (let t = all.length - 1; t >= 0; t--) {
    const received = handed, { before, own, gates, after } = all[t], inside = Array(weight[0].length).fill(0), straight = nothing(), ofState = nothing();
    given[t].forEach((x, j) => {
      const dh = x + handed[0][j], y = k => gates[k][j];
      if (cell === 'rnn') inside[j] = ofTanh(after[0][j], dh);
      else if (cell === 'lstm') {
        const tanh = Math.tanh(after[1][j]), dc = ofTanh(tanh, dh * y(3)) + handed[1][j];
        inside[j] = ofLogistic(y(0), dc * y(2));
        inside[n + j] = ofLogistic(y(1), dc * before[1][j]);
        inside[2 * n + j] = ofTanh(y(2), dc * y(0));
        inside[3 * n + j] = ofLogistic(y(3), dh * tanh);
        ofState[j] = dc * y(1);
      } else {
        const fresh = ofTanh(y(2), dh * (1 - y(1)));
        inside[j] = ofLogistic(y(0), fresh * own[2 * n + j]);
        inside[n + j] = ofLogistic(y(1), dh * (before[0][j] - y(2)));
        inside[2 * n + j] = fresh * y(0);
        straight[j] = dh * y(1);
      }
    });
    found.unshift({ received, inside, straight, ofState });
    handed = [weight.map((row, j) => row.reduce((s, w, k) => s + w * inside[k], straight[j])), ofState];
  }
  return found;
};
const later = (of, p) => laterTerms(of, p).map(token => token.received[p.state ? 1 : 0]);

const operations = {
  Before: recurrence,
  Later: later,
  GateGradient: ([a, g], { tanh }) => each(a, (y, i, j) => tanh ? ofTanh(y, g[i][j]) : ofLogistic(y, g[i][j])),
  Complement: ([a, g]) => each(a, (x, i, j) => (1 - x) * g[i][j]),
  Between: ([g, a, b]) => each(g, (x, i, j) => x * (a[i][j] - b[i][j])),
  Gate: ([a, b], { from, width, tanh }) => grid(a.length, width, (i, j) => {
    const x = a[i][from[0] + j] + b[i][from[1] + j];
    return tanh ? Math.tanh(x) : logistic(x);
  }),
  Gated: ([a, b, c, d], { complement }) => each(b, (x, i, j) => (complement ? 1 - a[i][j] : a[i][j]) * x + c[i][j] * d[i][j]),
  Sum: ([a, b]) => each(a, (x, i, j) => x + b[i][j]),
  Hadamard: ([a, b]) => each(a, (x, i, j) => x * b[i][j]),
  Product: ([a, b, c]) => c ? each(product(a, b), (x, i, j) => x + c[0][j]) : product(a, b),
  Mixture: ([a, b]) => grid(a.length, b[0].length, (i, j) => sum(b.length, k => share(a[i][k], b[k][j]))),
  ProductTransposed: ([a, b]) => product(a, flip(b)),
  TransposedProduct: ([a, b]) => product(flip(a), b),
  PairSums: ([a, b]) => a.flatMap(q => b.map(k => q.map((x, j) => x + k[j]))),
  PairGradient: ([a], p) => grid(p.second ? p.keys : a.length / p.keys, a[0].length, (i, j) => total(column(pairRows(a, i, p), j))),
  Reshaped: ([a], { columns }) => grid(a.flat().length / columns, columns, (i, j) => reshaped(a, i * columns + j)),
  ProductsTransposed: (of, { pairs }) => {
    const all = of.slice(2 * pairs);
    for (let k = pairs - 1; k >= 0; k--) all.unshift(product(of[2 * k], flip(of[2 * k + 1])));
    return all.reduce((s, a) => each(s, (x, i, j) => x + a[i][j]));
  },
  Difference: ([a, b], { over }) => each(a, (x, i, j) => (x - b[i][j]) / over),
  SoftmaxGradient: ([a, g]) => each(a, (x, i, j) => share(x, g[i][j] - sum(a[i].length, k => share(a[i][k], g[i][k])))),
  Spread: ([a], { rows, over }) => grid(rows, a[0].length, (i, j) => a[0][j] / over),
  ColumnSums: ([a]) => [a[0].map((_, j) => total(column(a, j)))],
  ColumnProducts: ([a, b]) => [a[0].map((_, j) => sum(a.length, i => a[i][j] * b[i][j]))],
  Columns: ([a], { from, to }) => a.map(row => row.slice(from, to)),
  Turned: (of, p) => each(of[0], (x, i, j) => {
    const { t, other, side } = angle(of, p, i, j);
    return side < 0 ? x * Math.cos(t) - other * Math.sin(t) : x * Math.cos(t) + other * Math.sin(t);
  }),
  Scaled: ([a], p) => { const f = factorOf(p); return each(a, x => x * f); },
  Biased: ([a], { bias }) => each(a, (x, i, j) => x + real(bias[i][j])),
  Masked: ([a], p) => each(a, (x, i, j) => isSeen(p, i, j) ? x : -Infinity),
  Largest: ([a]) => a.map(row => [most(row)]),
  Exponentials: ([a, m]) => each(a, (x, i) => !m ? Math.exp(x) : m[i][0] === -Infinity ? 0 : Math.exp(x - m[i][0])),
  RowSums: ([a]) => a.map(row => [total(row)]),
  Shares: ([a, z]) => each(a, (x, i) => z[i][0] === 0 ? 0 : x / z[i][0]),
  OneHot: ([a]) => a.map(row => { const best = first(row); return row.map((_, j) => j === best ? 1 : 0); }),
  Joined: of => of[0].map((_, i) => of.flatMap(a => a[i])),
  Normalised: ([a, g, b], { epsilon }) => normed(a, g, b, true, d => squares(d) / d.length + epsilon),
  RmsNormalised: ([a, g], { epsilon }) => normed(a, g, null, false, d => squares(d) / d.length + epsilon),
  Pooled: ([a], { poolings }) => [poolings.flatMap(pooling => a[0].map((_, j) => pools[pooling](column(a, j))))],
  Placed: ([a, g], { pooling }) => each(a, (_, i, j) => taken[pooling](column(a, j)) === i ? g[0][j] : 0),
  Activated: ([a], { curve }) => each(a, curves[curve][0]),
  Slope: ([a], { curve }) => each(a, curves[curve][1]),
  Logarithms: ([a]) => each(a, Math.log),
  CrossEntropy: ([t, l]) => [[t.flatMap((row, i) => row.map((x, j) => share(x, l[i][j]))).reduce((s, x) => s - x, 0) / t.length]],
  UnitLength: ([a]) => a.map(row => { const size = length(row); return row.map(x => size === 0 ? 0 : x / size); }),
  UnitGradient: ([a, u, g]) => each(a, (_, i, j) => length(a[i]) === 0 ? 0 : (g[i][j] - u[i][j] * along(u, g, i)) / length(a[i])),
  NormGradient: (of, p) => of[0].map((row, i) => {
    const { own, center, along, under, epsilon } = normGradient(of, p, i);
    return row.map((_, j) => (own[j] - center - of[1][i][j] * along) / Math.sqrt(under + epsilon));
  }),
  SoftmaxJacobian: ([a], { row }) => a[row].map((x, j) => a[row].map((y, k) => j === k ? x * (1 - x) : 0 - x * y)),
  Moment: ([g, m], { keep, square }) => each(g, (x, i, j) => {
    const fresh = (1 - keep) * (square ? x * x : x);
    return m ? keep * m[i][j] + fresh : fresh;
  }),
  Corrected: ([a], { left }) => each(a, x => x / left),
  Update: ([m, v], { rate, epsilon }) => each(m, (x, i, j) => rate * x / (Math.sqrt(v[i][j]) + epsilon)),
  Stepped: ([w, d], { kept }) => each(w, (x, i, j) => kept * x - d[i][j]),
};

