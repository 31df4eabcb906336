// Patching the decoder of a translator, which reads the tokens that both translations have in common.
for (const [lang, texts] of Object.entries({
  en: {
    patchCross: (l, h) => `head ${h} of the cross-attention in layer ${l}`, ofEncoder: 'encoder’s ', ofDecoder: 'decoder’s ',
    patchHint: 'Point at a cell, or go to it with Tab and arrow keys, to read its number. Click a head of cross-attention, or press Enter, to see its attention.',
    patchEncoder: 'Encoder', patchDecoder: 'Decoder', patchCrossHeads: 'OUTPUT OF EACH HEAD OF CROSS-ATTENTION', patchSelfHeads: 'OUTPUT OF EACH HEAD OF SELF-ATTENTION',
    patchDecoderNote: 'The decoder reads the same tokens for both texts, those before the translations part, so that their embeddings move nothing. Its other values differ because it attends to another source.',
  },
  ja: {
    patchCross: (l, h) => `第\xa0${l}\xa0層のクロスアテンションのヘッド ${h}`, ofEncoder: 'エンコーダーの', ofDecoder: 'デコーダーの',
    patchHint: 'マスにポインターを合わせるか、Tab キーと矢印キーで移動すると、値を読めます。クロスアテンションのヘッドをクリックするか Enter を押すと、そのアテンションを表示します。',
    patchEncoder: 'エンコーダー', patchDecoder: 'デコーダー', patchCrossHeads: 'クロスアテンションの各ヘッドの出力', patchSelfHeads: 'セルフアテンションの各ヘッドの出力',
    patchDecoderNote: 'デコーダーはどちらのテキストでも、訳文が分かれる前の同じトークンを読むので、その埋め込みを置き換えても何も動きません。ほかの値が異なるのは、参照する原文が異なるためです。',
  },
})) Object.assign(STRINGS[lang], texts);
function patchDecoder(maps, what) {
  const C = P.decoder;
  $('patch-decoder').hidden = !C;
  if (!C) return;
  const names = C.tokens.map(tokenName), columns = names.map(text => el('th', { scope: 'col', title: text }, el('bdi', { text: clip(text, 12) })));
  const [x, site] = maps('patch-decoder', C, { ...T.sites(T.ofDecoder), cross: T.patchCross }, columns, i => T.q(clip(names[i], 20)));
  $('patch-decoder-summary').textContent = T.patchSummary(site, percent(x) + ' %', '', what);
}
