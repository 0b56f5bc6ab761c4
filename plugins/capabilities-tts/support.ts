/** The effect of request fields that all voice families treat alike; shown verbatim in cards and docs. */
const COMMON = {
  text: 'spoken; up to the size a request may have',
  response_format: 'mp3: mono, constant bit rate, the voice\'s own sampling rate',
  streaming_interval: 'seconds of audio per chunk, 0.04 to 60 (default 1); the first chunks are shorter, ' +
    'so that sound starts at once',
  max_tokens: 'most phoneme symbols spoken in the whole answer; speech ends there, in the middle of a word ' +
    'if need be',
  top_p: 'no effect: this family does not sample tokens',
  top_k: 'no effect: this family does not sample tokens',
  repetition_penalty: 'no effect: this family does not sample tokens',
  instruct: 'no effect: this family does not follow instructions'
}

const VITS = {
  ...COMMON,
  voice: 'one of the listed voices',
  speed: 'multiple of the voice\'s own tempo, 0.25 to 4',
  temperature: 'multiple of the voice\'s own noise level, 0 to 2; beyond that the nearest of them'
}

const TABLES: Record<string, Record<string, string>> = {
  flite: {
    ...VITS,
    lang_code: 'en, en-us, or ipa for text that is phonemes already',
    seed: 'seeds the noise of the excitation: same seed, same bytes; seeds from 2^22 on share the noise of ' +
      'smaller ones. Without a seed the noise is always the same'
  },
  piper: {
    ...VITS,
    lang_code: 'the voice\'s own language, or ipa for text that is phonemes already; languages other than ' +
      'English need the package piper-phonemize',
    seed: 'seeds rhythm and tone: same seed, same bytes on the same machine; without a seed every answer ' +
      'differs a little'
  },
  kokoro: {
    ...COMMON,
    voice: 'one of the listed voices, or several joined by commas: their mean',
    speed: 'multiple of the voice\'s own tempo, 0.5 to 2 (1 or 2 if the graph accepts only whole numbers)',
    temperature: 'no effect: this family has no noise level',
    lang_code: 'en-us, en-gb, es, fr-fr, hi, it, pt-br (or the letter a, b, e, f, h, i, p), or ipa for ' +
      'text that is phonemes already; by default the language of the voice\'s first letter; those other ' +
      'than English need the package piper-phonemize',
    seed: 'seeds the noise of the graph if it draws any: same seed, same bytes on the same machine'
  }
}

export function supportOf (family: string): Record<string, string> {
  return { ...TABLES[family] }
}
