// Tables as text: what spreadsheets copy (tabs between cells) and CSV files.

// The rows of a text, each a list of cells. A cell in quotation marks may hold anything, its own marks doubled.
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
      // A mark that nothing closes, or that text follows, is a letter like any other.
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
  // Lines without anything are no rows.
  return rows.filter(row => row.length > 1 || row[0] !== '');
}

// A pasted table. What spreadsheets copy has tabs; commas and semicolons count only where every row has as many.
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

// A label or span that no spreadsheet takes for a formula, as the command's tables for spreadsheets have it: an apostrophe before
// what would begin one. Numbers stay as they are.
function withoutFormula(value) {
  return typeof value === 'string' && /^[=+\-@\t\r]/.test(value) && !Number.isFinite(Number(value)) ? `'${value}` : value;
}

// CSV as spreadsheets read it. Cells of the table that was given stay what they were, whatever they begin with: the user had them
// in a spreadsheet before. The mark at the beginning makes Excel read UTF-8.
function csvOf(rows) {
  const cell = value => { const text = String(value ?? ''); return /[",;\t\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text; };
  return '\ufeff' + rows.map(row => row.map(cell).join(',') + '\r\n').join('');
}

// The bytes of a file as text: UTF-8, UTF-16 with its mark, else Shift_JIS, as Japanese spreadsheets write it.
function textOf(bytes) {
  const view = new Uint8Array(bytes), of = (name, options) => new TextDecoder(name, options).decode(bytes);
  if (view[0] === 0xff && view[1] === 0xfe) return of('utf-16le');
  if (view[0] === 0xfe && view[1] === 0xff) return of('utf-16be');
  try { return of('utf-8', { fatal: true }); } catch { return of('shift_jis'); }
}
