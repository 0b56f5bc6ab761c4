import { orElse } from '../../kernel/api/schema.js'

/** The English name of a language code in lower case, such as `english`, as OpenAI and Whisper write it. */
export function languageName (code: string): string {
  const names = new Intl.DisplayNames(['en'], { type: 'language' })
  return orElse(code, () => names.of(code)?.toLowerCase() ?? code)
}
