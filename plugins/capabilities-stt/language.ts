/** The English name of a language code in lower case, such as `english`, as OpenAI and Whisper write it. */
export function languageName (code: string): string {
  try {
    return new Intl.DisplayNames(['en'], { type: 'language' }).of(code)?.toLowerCase() ?? code
  } catch {
    return code
  }
}
