// Tables as text: cells copied from spreadsheets (separated by tabs) and CSV files.

// Parses rows, each a list of cells. A quoted cell may contain anything; its own quotes are doubled.
function cellsOf(text, separator) {
  const rows = [], most = text.length;
  let row = [], at = 0;
  while (at <= most) {
    let cell = null;
    if (text[at] === '"') {
      let end = at + 1, inside = '';
      for (; end < most; end++) {
        if (text[end] !== '"') inside += text[end];
        else if (text[end + 1] === '"') { inside += '"'; end++; } else break;
      }
      // A quote that is never closed, or that is followed by text, is an ordinary character.
      if (end < most && (end + 1 === most || text[end + 1] === separator || text[end + 1] === '\n')) { cell = inside; at = end + 1; }
    }
    if (cell === null) {
      let end = at;
      while (end < most && text[end] !== separator && text[end] !== '\n') end++;
      cell = text.slice(at, end);
      at = end;
    }
    row.push(cell);
    if (text[at] !== separator || at >= most) { rows.push(row); row = []; }
    at++;
  }
  // Empty lines are no rows.
  return rows.filter(row => row.length > 1 || row[0] !== '');
}

// Parses a pasted table. Spreadsheets copy tabs; commas and semicolons count only if every row has the same number of them.
function tableOf(given) {
  const text = given.replace(/^\ufeff/, '').replace(/\r\n?/g, '\n').replace(/\n+$/, '');
  if (!text) return [];
  if (text.includes('\t')) return cellsOf(text, '\t');
  for (const separator of [',', ';']) {
    const rows = cellsOf(text, separator);
    if (rows[0].length > 1 && rows.every(row => row.length === rows[0].length)) return rows;
  }
  return cellsOf(text, '\t');
}

// Escapes a label or span that a spreadsheet would take for a formula with an apostrophe, like the tables of the command. Numbers
// stay unchanged.
function withoutFormula(value) {
  return typeof value === 'string' && /^[=+\-@\t\r]/.test(value) && !Number.isFinite(Number(value)) ? `'${value}` : value;
}

// Writes CSV for spreadsheets. Cells of the input table stay unchanged, because the user had them in a spreadsheet before. The byte
// order mark makes Excel read UTF-8.
function csvOf(rows) {
  const cell = value => { const text = String(value ?? ''); return /[",;\t\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text; };
  return '\ufeff' + rows.map(row => row.map(cell).join(',') + '\r\n').join('');
}

// Decodes the bytes of a file: UTF-8, UTF-16 with a byte order mark, otherwise Shift_JIS, as Japanese spreadsheets write it.
function textOf(bytes) {
  const view = new Uint8Array(bytes), of = (name, options) => new TextDecoder(name, options).decode(bytes);
  if (view[0] === 0xff && view[1] === 0xfe) return of('utf-16le');
  if (view[0] === 0xfe && view[1] === 0xff) return of('utf-16be');
  try { return of('utf-8', { fatal: true }); } catch { return of('shift_jis'); }
}
