/** Placeholder for secrets in output. */
export const HIDDEN = '********'

/**
 * Matches from `://` to the next space or line break, but includes spaces in `user:pass word@`. A quote or
 * angle bracket ends the match unless text follows it directly; a backslash includes the next character.
 */
const FROM_HOST = new RegExp('://' +
  /(?:[^\s/?#@"\\:]*:(?!\d*(?:\s|\\[nr]))(?:\\.|[^/?#@"\\\r\n])*@)?/.source +
  /(?:\\[^nr]|[^\s"'<>`\\]|["'<>`]+(?=[\w%&=+@]))*/.source, 'g')
/** User and password. The second form allows `/`, `?` or `#` in a password if no port follows the colon. */
const USER = /^:\/\/(?:[^/?#]*@|(?!\[)[^/?#:]*:(?!\d*(?:[/?#]|$)).*@)/s
/** Query or fragment; a fragment may contain a token too, as in OAuth responses. */
const QUERY = /(\?|#(?=[^#]*=)).*/s

/** Removes user names, passwords, queries and fragment values from URLs, since they may be secrets. */
export function withoutUrlSecrets (text: string): string {
  return text.replace(FROM_HOST, (rest) =>
    rest.replace(USER, `://${HIDDEN}@`).replace(QUERY, `$1${HIDDEN}`))
}
