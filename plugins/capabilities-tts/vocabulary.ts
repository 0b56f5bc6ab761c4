/** Kokoro-82M v1.0's vocabulary, for exports without JSON files, as runs of a first id and its symbols. */
const V1: ReadonlyArray<readonly [number, string]> = [
  [1, ';:,.!?'], [9, '—…"()“” \u0303ʣʥʦʨᵝ\uAB67AI'], [31, 'O'], [33, 'Q'], [35, 'ST'], [39, 'W'],
  [41, 'Yᵊabcdef'], [50, 'hijklmnopqrstuvwxyzɑɐɒæ'], [75, 'βɔɕç'], [80, 'ɖðʤə'], [85, 'ɚɛɜ'], [90, 'ɟ'],
  [92, 'ɡ'], [99, 'ɥ'], [101, 'ɨɪʝ'], [110, 'ɯɰŋɳɲɴø'], [118, 'ɸθœ'], [123, 'ɹ'], [125, 'ɾɻ'],
  [128, 'ʁɽʂʃʈʧ'], [135, 'ʊʋ'], [138, 'ʌɣɤ'], [142, 'χʎ'], [147, 'ʒʔ'], [156, 'ˈˌː'], [162, 'ʰ'], [164, 'ʲ'],
  [169, '↓'], [171, '→↗↘'], [177, 'ᵻ']
]

export const SYMBOLS = 178

export const kokoroVocabulary = (): Map<string, number> => new Map(
  V1.flatMap(([first, symbols]) => [...symbols].map((symbol, i): [string, number] => [symbol, first + i])))

const isVocabulary = (value: unknown): value is Record<string, number> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length > 0 &&
  Object.values(value).every((id) => Number.isInteger(id) && (id as number) >= 0)

/** The vocabulary in Kokoro's config.json (`vocab`) or tokenizer.json (`model.vocab`), or undefined. */
export function vocabularyOf (json: unknown): Map<string, number> | undefined {
  const { vocab, model } = (json ?? {}) as { vocab?: unknown, model?: { vocab?: unknown } | null }
  const found = [vocab, model?.vocab].find(isVocabulary)
  return found === undefined ? undefined : new Map(Object.entries(found))
}
