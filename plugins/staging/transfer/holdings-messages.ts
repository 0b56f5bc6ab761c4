/** What nodes say to each other about the chunks they hold; `m` is the digest of a manifest. */
export type HoldingsMessage =
  /** Who holds any of it? */
  | { t: 'ask', m: string }
  /** All that the sender holds: everything, or the chunks of a bitmap in base64. */
  | { t: 'have', m: string, all: true }
  | { t: 'have', m: string, bits: string }
  /** Chunks the sender got since. */
  | { t: 'got', m: string, i: number[] }
  /** The chunk that the sender fetches from the store now. */
  | { t: 'take', m: string, i: number }
  /** The sender gives none of it any more. */
  | { t: 'end', m: string }

/** Chunks in one `got`. */
export const MOST_GOT = 1000
const MOST_BASE64 = 128 * 1024

const chunk = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0

/** A message of another node, or undefined for anything that is none. Pure. */
export function readMessage (message: unknown): HoldingsMessage | undefined {
  if (typeof message !== 'object' || message === null) return undefined
  const { t, m, all, bits, i } = message as { [key: string]: unknown, t?: unknown, m?: unknown, all?: unknown,
    bits?: unknown, i?: unknown }
  if (typeof m !== 'string' || !/^[0-9a-f]{64}$/.test(m)) return undefined
  switch (t) {
    case 'ask':
    case 'end': return { t, m }
    case 'take': return chunk(i) ? { t, m, i } : undefined
    case 'got': return Array.isArray(i) && i.length <= MOST_GOT && i.every(chunk) ? { t, m, i } : undefined
    case 'have':
      if (all === true) return { t, m, all }
      return typeof bits === 'string' && bits.length <= MOST_BASE64 ? { t, m, bits } : undefined
    default: return undefined
  }
}
