/** Shown in place of a secret. */
export const HIDDEN = '********'

/** A text whose URLs are without user names, passwords and queries, which may be secrets. */
export function withoutUrlSecrets (text: string): string {
  return text.replace(/:\/\/[^\s"'<>\\`]+/g, (rest) =>
    rest.replace(/^:\/\/[^/?#]*@/, `://${HIDDEN}@`).replace(/\?.*/, `?${HIDDEN}`))
}
