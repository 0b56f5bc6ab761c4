import {
  badField, inContact, kernelError, SvcError, type Clock, type Cluster, type IssuedToken, type Logger,
  type Section, type Session, type TokenOptions, type Tokens
} from '../../../kernel/index.js'
import { earlier, hasEnded } from './commands.js'
import { KeyNotes } from './notes.js'
import { recordOf, SharedKeys } from './shared-keys.js'
import type { Key } from './declarations.js'

interface Parts {
  home: string
  clock: Clock
  log: Logger
  tokens: Tokens
  cluster: Pick<Cluster, 'nodes' | 'resolve' | 'self'>
  session: Session
  sections: { keys: Section<Key>, keyUse: Section<string>, revocations: Section<string> }
  add: (args: { id: string, key: Key, until: string | null }) => Promise<unknown>
  end: (id: string) => Promise<unknown>
  error: (reason: 'keys_unconfirmed' | 'token_not_found', message?: string) => SvcError
}

/** Creates, rotates and revokes the keys of the cluster through its master. */
export function createKeys (parts: Parts) {
  const { add, clock, cluster, end, error, home, log, sections, session, tokens } = parts
  const notes = new KeyNotes({ home, log })
  const scheme = new SharedKeys({
    section: sections.keys, use: sections.keyUse, revocations: sections.revocations, notes, tokens,
    clock, log, isMember: (installId) => cluster.resolve(installId) !== undefined,
    hears: () => inContact(session, cluster), end, unconfirmed: () => error('keys_unconfirmed')
  })
  const create = async (
    wanted: TokenOptions, { replaces, until }: { replaces: string | null, until: string | null }
  ): Promise<IssuedToken> => {
    const { token, hash, record } = tokens.issue(wanted)
    const id = record.id.replace('app_', 'key_')
    const { authorities, created, expires, label, models } = record
    const key: Key = {
      label, authorities, models, hash: hash.toString('base64url'), created, expires,
      makers: tokens.makers(wanted.by.id), node: cluster.self.installId,
      replaces, revoked: false
    }
    await withMaster(add({ id, key, until }),
      'no key was created. `svc token create LABEL --local` creates one for this node alone')
    return { token, record: recordOf(id, key) }
  }
  return {
    scheme,
    create: async (wanted: TokenOptions) => await create(wanted, { replaces: null, until: null }),
    /** Throws `token_not_found`, `token_replaced`, and errors for rights that the caller lacks. */
    async rotate (id: string, overlapSeconds: number, by: TokenOptions['by']) {
      const old = scheme.get(id)
      const now = clock.now()
      if (old === undefined || hasEnded(old, now) || notes.isRevoked(id)) {
        throw error('token_not_found', `There is no valid key ${id} of the cluster; a token of one node ` +
          'cannot be rotated.')
      }
      if (tokens.makers(by.id).includes(id)) {
        throw badField('id', 'is your own key, or made yours; the new key would end with it')
      }
      const { authorities, created, expires, label, models } = old
      const whole = expires === null ? null : now + Date.parse(expires) - Date.parse(created)
      const last = tokens.list().find((one) => one.id === by.id)?.expires ?? null
      const expiresAt = earlier(whole === null ? null : new Date(whole).toISOString(), last)
      const until = new Date(now + overlapSeconds * 1000).toISOString()
      const made = await create({ label, authorities: [...authorities], models: models && [...models],
        expiresAt, by }, { replaces: id, until })
      return { ...made, replaces: id, ends: earlier(expires, until)! }
    },
    /** False if there is no such key. The node itself refuses it at once, even without a master. */
    async revoke (id: string): Promise<boolean> {
      if (scheme.get(id) === undefined) return false
      notes.revoke([id])
      await withMaster(end(id), 'only this node refuses the key now; the others follow once there is one')
      return true
    }
  }
}

/** Says in the error what a missing master means for the change. */
async function withMaster (change: Promise<unknown>, effect: string): Promise<void> {
  try {
    await change
  } catch (error) {
    if (!(error instanceof SvcError) || !['no_master', 'no_quorum'].includes(error.reason)) throw error
    throw kernelError(error.reason as 'no_master', `${error.message.replace(/\.$/, '')}: ${effect}.`)
  }
}
