import {
  badField, inContact, kernelError, SvcError, type Clock, type Cluster, type IssuedToken, type Section,
  type Session, type TokenOptions, type Tokens
} from '../../../kernel/index.js'
import { earlier } from './commands.js'
import { recordOf, SharedKeys } from './shared-keys.js'
import type { Limits } from '../limits.js'
import { MAX_MAKERS, type Key } from './declarations.js'

interface Origin { limits: Limits | undefined, replaces: string | null, until: string | null }

interface Parts {
  clock: Clock
  tokens: Tokens
  cluster: Pick<Cluster, 'nodes' | 'resolve' | 'self'>
  session: Session
  sections: { keys: Section<Key>, keyUse: Section<string>, revocations: Section<string> }
  add: (args: { id: string, key: Key, until: string | null }) => Promise<unknown>
  error: (reason: 'keys_unconfirmed' | 'token_not_found', message?: string) => SvcError
}

/** Creates and rotates the keys of the cluster through its master. */
export function createKeys ({ add, clock, cluster, error, sections, session, tokens }: Parts) {
  const scheme = new SharedKeys({
    section: sections.keys, use: sections.keyUse, revocations: sections.revocations, tokens, clock,
    isMember: (installId) => cluster.resolve(installId) !== undefined,
    hears: () => inContact(session, cluster), unconfirmed: () => error('keys_unconfirmed')
  })
  const create = async (
    wanted: TokenOptions, { limits, replaces, until }: Origin
  ): Promise<IssuedToken> => {
    const { token, hash, record } = tokens.issue(wanted)
    const id = record.id.replace('app_', 'key_')
    const { authorities, created, expires, label, models } = record
    const makers = tokens.makers(wanted.by.id)
    if (makers.length > MAX_MAKERS) {
      throw kernelError('invalid_request',
        `${MAX_MAKERS} tokens have created each other; the next one needs the token of an earlier one`)
    }
    const key: Key = {
      label, authorities, models, hash: hash.toString('base64url'), created, expires,
      makers, node: cluster.self.installId, replaces,
      ...limits === undefined ? {} : { limits }
    }
    await add({ id, key, until }).catch((error: unknown) => {
      if (!(error instanceof SvcError) || !/^no_(master|quorum)$/.test(error.reason)) throw error
      throw kernelError(error.reason as 'no_master', `${error.message} No key was created; \`svc token ` +
        'create LABEL --local` creates one for this node alone.')
    })
    return { token, record: recordOf(id, key) }
  }
  return {
    scheme,
    create: async (wanted: TokenOptions, limits?: Limits) =>
      await create(wanted, { limits, replaces: null, until: null }),
    /** Throws `token_not_found`, `token_replaced`, and errors for rights that the caller lacks. */
    async rotate (id: string, overlapSeconds: number, by: TokenOptions['by']) {
      const old = scheme.valid(id)
      if (old === undefined || !tokens.stands(id)) {
        throw error('token_not_found', `There is no valid key ${id} of the cluster; a token of one node ` +
          'cannot be rotated.')
      }
      if (tokens.makers(by.id).includes(id)) {
        throw badField('id', 'is your own key, or made yours; the new key would end with it')
      }
      const { authorities, created, expires, label, limits, models } = old
      const at = (ms: number): string => new Date(clock.now() + ms).toISOString()
      const whole = expires === null ? null : at(Date.parse(expires) - Date.parse(created))
      const last = tokens.list().find((one) => one.id === by.id)?.expires ?? null
      const ends = earlier(expires, at(overlapSeconds * 1000))!
      const copy = { label, authorities: [...authorities], models: models && [...models], by }
      const made = await create({ ...copy, expiresAt: earlier(whole, last) },
        { limits, replaces: id, until: ends })
      return { ...made, replaces: id, ends }
    }
  }
}
