/** Shown in place of a secret. */
export const HIDDEN = '********'

/**
 * From `://` to a space or `\n`, also past one within `user:pass word@`. Quotes and angle brackets end it
 * unless the text continues after them; a backslash includes the next character, as in JSON.
 */
const FROM_HOST = new RegExp('://' +
  /(?:[^\s/?#@"\\:]*:(?!\d*(?:\s|\\[nr]))(?:\\.|[^/?#@"\\\r\n])*@)?/.source +
  /(?:\\[^nr]|[^\s"'<>`\\]|["'<>`]+(?=[\w%&=+@]))*/.source, 'g')
/** The second form has `/`, `?` or `#` in a password: the text after the colon is no port. */
const USER = /^:\/\/(?:[^/?#]*@|(?!\[)[^/?#:]*:(?!\d*(?:[/?#]|$)).*@)/s
/** A fragment may contain a token as well, as in answers of OAuth. */
const QUERY = /(\?|#(?=[^#]*=)).*/s

/**
 * Removes user names, passwords, queries and the values in fragments from URLs, since they may be secrets.
 */
export function withoutUrlSecrets (text: string): string {
  return text.replace(FROM_HOST, (rest) =>
    rest.replace(USER, `://${HIDDEN}@`).replace(QUERY, `$1${HIDDEN}`))
}
