import type { Clock, Logger, Section, Tokens } from '../../kernel/index.js'

/** Revocations that the cluster keeps: its document has 256 KiB for all plugins. */
const MOST = 500

export interface RevocationOptions {
  /** By token id: when the token would have ended, or an empty text. */
  section: Section<string>
  tokens: Pick<Tokens, 'list' | 'revoke' | 'revoked'>
  clock: Clock
  log: Logger
  keep: (id: string, expires: string) => Promise<unknown>
}

/**
 * Brings the token file of this node and the cluster's document together: a home out of an old backup learns
 * which of its tokens were revoked since.
 */
export function createRevocations ({ section, tokens, clock, log, keep }: RevocationOptions) {
  const isOver = (expires: string): boolean => expires !== '' && Date.parse(expires) <= clock.now()
  const later = (act: () => Promise<void>) => (): void => {
    act().catch((err: unknown) => { log.warn({ err }, 'revoked tokens wait for the disk or the master') })
  }
  return {
    /** Revokes here what the document says. */
    hear: later(async () => {
      const good = new Set(tokens.list().filter(({ revoked }) => !revoked).map(({ id }) => id))
      for (const { key } of section.entries()) if (good.has(key)) await tokens.revoke(key)
    }),
    /** Enters what the document lacks. */
    tell: later(async () => {
      for (const { id, expires } of tokens.revoked()) {
        if (section.get(id) === undefined && !isOver(expires ?? '')) await keep(id, expires ?? '')
      }
    }),
    /** Run by the master. */
    command: ({ id, expires }: { id: string, expires: string }): Record<string, unknown> => {
      const known = [...section.entries()]
      for (const { key, value } of known) if (isOver(value)) section.remove(key)
      if (known.length < MOST) section.put(id, expires)
      return {}
    }
  }
}
