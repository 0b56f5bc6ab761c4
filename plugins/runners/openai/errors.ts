/** Thrown if the connection broke or the response is invalid; the server may have exited. */
export class BrokenAnswer extends Error { override readonly name = 'BrokenAnswer' }

/** Removes file paths from a message, because clients must not see them. */
export const withoutPaths = (message: string): string =>
  message.replace(/(['"])\/[^'"]*\1/g, '$1[path]$1').replace(/(^|[\s(=:])\/[^\s'"):,]+/g, '$1[path]')
