import type { Clock, Logger, Section, Tokens } from '../../kernel/index.js'

/** Revocations that the cluster keeps, of the 256 KiB of the control document that all plugins share. */
const MOST = 500
/** Revocations that fit into one command. */
const AT_ONCE = 50

interface Revoked { id: string, expires: string }

export interface RevocationOptions {
  /** By token id: when the token would have ended, or an empty text. */
  section: Section<string>
  tokens: Pick<Tokens, 'list' | 'revoke' | 'revoked'>
  clock: Clock
  log: Logger
  keep: (revoked: Revoked[]) => Promise<void>
}

/**
 * Revocations of this node's tokens, in its file and in the cluster's document: a home that comes from an old
 * backup learns from the document what was revoked since.
 */
export function createRevocations ({ section, tokens, clock, log, keep }: RevocationOptions) {
  const isOver = (expires: string): boolean => expires !== '' && Date.parse(expires) <= clock.now()
  const hear = async (): Promise<void> => {
    const good = new Set(tokens.list().filter(({ revoked }) => !revoked).map(({ id }) => id))
    for (const { key } of section.entries()) if (good.has(key)) await tokens.revoke(key)
  }
  const tell = async (): Promise<void> => {
    const untold = tokens.revoked().map(({ id, expires }) => ({ id, expires: expires ?? '' }))
      .filter(({ id, expires }) => section.get(id) === undefined && !isOver(expires))
    while (untold.length > 0) await keep(untold.splice(0, AT_ONCE))
  }
  return {
    /** Revokes here what the document says. */
    hear: () => {
      hear().catch((err: unknown) => { log.warn({ err }, 'a revocation could not be written to the disk') })
    },
    /** Tells the cluster of what it lacks, in the background; with the next session at the latest. */
    tell: () => {
      tell().catch((err: unknown) => { log.debug({ err }, 'revocations are told to the cluster later') })
    },
    /** Run by the master. */
    command: ({ revoked }: { revoked: readonly Revoked[] }): Record<string, unknown> => {
      const known = [...section.entries()]
      for (const { key, value } of known) if (isOver(value)) section.remove(key)
      for (const { id, expires } of revoked.slice(0, MOST - known.length)) section.put(id, expires)
      return {}
    }
  }
}
