const words: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'refused',
  ETIMEDOUT: 'timeout',
  ENOTFOUND: 'name_not_found',
  EAI_AGAIN: 'name_not_found',
  EHOSTUNREACH: 'no_route',
  ENETUNREACH: 'no_route',
  EHOSTDOWN: 'no_route',
  EADDRNOTAVAIL: 'no_route',
  ECONNRESET: 'closed',
  EPIPE: 'closed'
}

/**
 * Why a dial failed, as one word: `refused`, `timeout`, `wrong_key`, `name_not_found`, `no_route`, `closed`
 * (the other end hung up: it does not know this node's key, or is no member's listener), `self` (the address
 * is this node's own), a close code's word, or the code as the system gave it.
 */
export function dialReason (error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code
  if (typeof code !== 'string') return 'failed'
  return words[code] ?? code
}
