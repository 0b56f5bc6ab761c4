/** Asks that a request whose instance was lost is tried once more elsewhere: `x-svc-retry: 1`. */
export const RETRY_HEADER = 'x-svc-retry'

/** Whether the client, or the node it asked, wants a lost request to be tried again. */
export function wantsRetry (headers: Readonly<Record<string, string | undefined>>): boolean {
  return headers[RETRY_HEADER] === '1'
}
