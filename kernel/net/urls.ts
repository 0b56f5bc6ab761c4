/** Shown in place of a secret. */
export const HIDDEN = '********'

/**
 * From `://` to a space or `\n`, also past one within `user:pass word@`. Quotes and angle brackets end it
 * unless the text goes on after them; a backslash takes its next character along, as in JSON.
 */
const FROM_HOST = new RegExp('://' +
  /(?:[^\s/?#@"\\:]*:(?!\d*(?:\s|\\[nr]))(?:\\.|[^/?#@"\\\r\n])*@)?/.source +
  /(?:\\[^nr]|[^\s"'<>`\\]|["'<>`]+(?=[\w%&=+@]))*/.source, 'g')
/** The second form has `/`, `?` or `#` in a password: what stands after the colon is no port. */
const USER = /^:\/\/(?:[^/?#]*@|(?!\[)[^/?#:]*:(?!\d*(?:[/?#]|$)).*@)/s
/** A fragment may have a token as well, as in answers of OAuth. */
const QUERY = /(\?|#(?=[^#]*=)).*/s

/** A text whose URLs have no user names, passwords, queries nor values in fragments, which may be secrets. */
export function withoutUrlSecrets (text: string): string {
  return text.replace(FROM_HOST, (rest) =>
    rest.replace(USER, `://${HIDDEN}@`).replace(QUERY, `$1${HIDDEN}`))
}
