import type { Clock, Logger, Section, Tokens } from '../../kernel/index.js'

/** Maximum number of revocations in the replicated document, whose 256 KiB all plugins share. */
const MOST = 500

export interface RevocationOptions {
  /** Maps a revoked token's id to its expiry, or to an empty string if it never expires. */
  section: Section<string>
  tokens: Pick<Tokens, 'list' | 'revoke' | 'revoked'>
  clock: Clock
  log: Logger
  keep: (id: string, expires: string) => Promise<unknown>
}

/**
 * Synchronizes revocations between this node's token file and the cluster document, so that tokens revoked
 * since a backup stay revoked after its restore.
 */
export function createRevocations ({ section, tokens, clock, log, keep }: RevocationOptions) {
  const isOver = (expires: string): boolean => expires !== '' && Date.parse(expires) <= clock.now()
  const later = (act: () => Promise<void>) => (): void => {
    act().catch((err: unknown) => { log.warn({ err }, 'token revocations could not be synchronized') })
  }
  return {
    /** Revokes local tokens that the document lists. */
    hear: later(async () => {
      const good = new Set(tokens.list().filter(({ revoked }) => !revoked).map(({ id }) => id))
      for (const { key } of section.entries()) if (good.has(key)) await tokens.revoke(key)
    }),
    /** Adds local revocations to the document. */
    tell: later(async () => {
      for (const { id, expires } of tokens.revoked()) {
        if (section.get(id) === undefined && !isOver(expires ?? '')) await keep(id, expires ?? '')
      }
    }),
    /** Command handler on the master; adds a revocation to the document. */
    command: ({ id, expires }: { id: string, expires: string }): Record<string, unknown> => {
      const known = [...section.entries()]
      for (const { key, value } of known) if (isOver(value)) section.remove(key)
      if (known.length < MOST) section.put(id, expires)
      return {}
    }
  }
}
