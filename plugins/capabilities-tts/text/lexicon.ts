/**
 * Words whose sound is fixed here. WEAK: function words without stress, in IPA exactly as the embedded voice
 * was trained on them. EXTRA: words of our field that the CMU dictionary lacks, in ARPABET.
 */
export const WEAK: ReadonlyMap<string, string> = new Map(Object.entries({
  a: 'ɐ', an: 'ɐn', the: 'ðə', this: 'ðɪs', that: 'ðæt',
  of: 'ʌv', to: 'tə', in: 'ɪn', for: 'fɔːɹ', from: 'fɹʌm', at: 'æt', as: 'æz', on: 'ɔn', with: 'wɪð',
  by: 'baɪ',
  and: 'ænd', or: 'ɔːɹ', but: 'bʌt', so: 'sˌoʊ',
  is: 'ɪz', am: 'æm', are: 'ɑːɹ', was: 'wʌz', were: 'wɜː', has: 'hæz', have: 'hæv', can: 'kæn', could: 'kʊd',
  would: 'wʊd',
  i: 'aɪ', you: 'juː', he: 'hiː', she: 'ʃiː', it: 'ɪt', we: 'wiː', they: 'ðeɪ', me: 'miː', us: 'ʌs',
  them: 'ðɛm',
  my: 'maɪ', your: 'jʊɹ', her: 'hɜː'
}))

export const EXTRA: ReadonlyMap<string, string> = new Map(Object.entries({
  aitch: 'EY1 CH', eff: 'EH1 F',
  ascii: 'AE1 S K IY0', async: 'EY1 S IH2 NG K', chatbot: 'CH AE1 T B AA2 T',
  config: 'K AH0 N F IH1 G', configs: 'K AH0 N F IH1 G Z', cuda: 'K UW1 D AH0', emoji: 'IH0 M OW1 JH IY0',
  frontend: 'F R AH1 N T EH2 N D', gif: 'G IH1 F', gui: 'G UW1 IY0', jpeg: 'JH EY1 P EH2 G',
  json: 'JH EY1 S AH0 N', kubernetes: 'K UW2 B ER0 N EH1 T IY0 Z', localhost: 'L OW1 K AH0 L HH OW2 S T',
  meme: 'M IY1 M', ok: 'OW1 K EY1', onnx: 'AA1 N IH0 K S',
  regex: 'R EH1 JH EH2 K S', repo: 'R IY1 P OW0', sudo: 'S UW1 D UW0', vram: 'V IY1 R AE2 M',
  wasm: 'W AA1 Z AH0 M', yaml: 'Y AE1 M AH0 L',
  wifi: 'W AY1 F AY2'
}))
