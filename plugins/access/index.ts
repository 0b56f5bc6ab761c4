import {
  badField, CallerService, closedObject, ClusterService, definePlugin, SessionService,
  TokenService
} from '../../kernel/index.js'
import { ChatService } from '../chat/service.js'
import { RunnerWorkService } from '../runners/service.js'
import { keyAdder } from './keys/commands.js'
import { addKeyDecl, keyErrors, keySections } from './keys/declarations.js'
import { createKeys } from './keys/index.js'
import { routes } from './routes.js'
import { startLimits } from './limits.js'
import { startUsage } from './usage/index.js'
import { UsageTable } from './usage/table.js'
import { usageVerb } from './usage/verb.js'
import type { Key } from './keys/declarations.js'
import type { Clock, FromSchema, Logger, Section, Tokens } from '../../kernel/index.js'

/** Manages the keys of the cluster and the tokens of this node. */
export default definePlugin({
  name: 'access',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Creates, lists, rotates and revokes keys of the cluster and tokens of a node; counts who uses ' +
    'which model.',
  consumes: {
    callers: CallerService, cluster: ClusterService, session: SessionService, tokens: TokenService
  },
  after: ['runners'], consumesOptional: { chat: ChatService, work: RunnerWorkService },
  sections: {
    ...keySections,
    revocations: {
      writer: 'master',
      summary: 'Revoked token ids, each with the expiry of the token.',
      value: { type: 'string', maxLength: 30 }
    }
  },
  commands: {
    addKey: addKeyDecl,
    keepRevoked: {
      summary: 'Records the revocation of a token.',
      args: closedObject({
        id: { type: 'string', maxLength: 64 }, expires: { type: 'string', maxLength: 30 }
      })
    }
  },
  routes,
  errors: {
    ...keyErrors,
    token_not_found: {
      status: 404,
      retryable: false,
      message: 'The token does not exist.',
      remedy: '`svc token ls` lists the tokens with their ids.'
    }
  },
  events: {
    TokenCreated: {
      plane: 'durable',
      summary: 'A token was created; the event lists its authorities, never its secret.',
      payload: closedObject({
        id: { type: 'string' }, label: { type: 'string' },
        authorities: { type: 'array', items: { type: 'string' } }, by: { type: 'string' }
      })
    },
    TokenRotated: {
      plane: 'durable',
      summary: 'A key was replaced by a new one; the old one ends at `ends`.',
      payload: closedObject({
        id: { type: 'string' }, replaces: { type: 'string' }, ends: { type: 'string' }, by: { type: 'string' }
      })
    },
    TokenRevoked: {
      plane: 'durable',
      summary: 'A token was revoked.',
      payload: closedObject({ id: { type: 'string' }, by: { type: 'string' } })
    }
  },
  tools: {
    tokens: {
      summary: 'The tokens of cluster and node: which are expired or revoked, and what each may do.',
      args: closedObject({
        about: {
          type: 'string', maxLength: 4000,
          description: 'Text that contains the label or id of a token, to select that token.'
        }
      }, []),
      finds: { past: false }, load: () => import('./tools/tokens.js')
    }
  },
  verbs: {
    'token create': {
      heading: 'Set it up',
      summary: 'create a token; it is shown once',
      args: '<label>',
      options: [
        ['--authority <name...>', 'what it may do (default: read and invoke)'],
        ['--expires <when>', 'when it expires: 90d, 12h, or a date such as 2027-01-31'],
        ['--model <name...>', 'the only models that it may use'],
        ['--limit <name=count...>', 'requests_per_minute, tokens_per_minute, tokens_per_day'],
        ['--local', 'valid at this node only']
      ],
      examples: [
        'svc token create phone', 'svc token create app --model acme/small',
        'svc token create dashboard --authority read --expires 90d'
      ],
      load: () => import('./cli/create.js')
    },
    'token ls': {
      heading: 'Set it up',
      summary: 'list the tokens of the cluster and the node, without their secrets',
      load: () => import('./cli/ls.js')
    },
    'token rotate': {
      heading: 'Set it up',
      summary: 'replace a token by a new one; both are valid for a while',
      args: '<id>',
      options: [['--overlap <span>', 'how long the old one stays valid: 24h (default), 7d, 0']],
      load: () => import('./cli/rotate.js')
    },
    'token revoke': {
      heading: 'Set it up',
      summary: 'revoke a token immediately and permanently',
      args: '<id>',
      load: () => import('./cli/revoke.js')
    },
    usage: usageVerb
  }
}, (ctx) => {
  const { deps: { callers, cluster, session, tokens, work }, clock, emit, error, log, node: { name } } = ctx
  const { keys: keySection, revocations: section } = ctx.sections
  const revocations = createRevocations({
    section, tokens, clock, log, keys: keySection,
    keep: async (id, expires) => await ctx.command('keepRevoked', { id, expires })
  })
  const keys = createKeys({
    clock, tokens, cluster, session, error, sections: ctx.sections,
    add: async (args) => await ctx.command('addKey', args)
  })
  const { scheme } = keys
  ctx.effect('keys of the cluster', callers.register(scheme))
  ctx.effect('keys of the document', keySection.observe(() => { scheme.read() }))
  ctx.effect('contact with a session', session.onChange(() => { scheme.look() }))
  ctx.every('contact with the cluster', CONTACT_MS, () => { scheme.look() })
  scheme.read()
  ctx.effect('revocations of the document', section.observe(revocations.hear))
  ctx.effect('revocations of a new session', session.onChange(revocations.tell))
  revocations.hear()
  revocations.tell()
  const table = new UsageTable()
  const payerOf = (id: string): string => id.startsWith(TEMPORARY) ? tokens.makers(id)[1] ?? id : id
  if (work !== undefined) {
    startLimits(ctx, { error, table, work, payerOf, keys: keySection, section: ctx.sections.keySpent })
  }
  return {
    commands: {
      addKey: keyAdder({ section: keySection, revocations: section, clock, error }),
      keepRevoked: revocations.command
    },
    routes: {
      usage: startUsage(ctx, table, payerOf),
      list: () => ({
        tokens: tokens.list().map((record) => {
          const key = scheme.get(record.id)
          const { limits = null, replaces = null } = key ?? {}
          return { ...record, node: key === undefined ? name : null, limits, replaces }
        })
      }),
      create: async (request) => {
        const { body: { label, authorities, limits, models: given, local, expires = null }, caller } = request
        const models = given?.map((model) => ctx.deps.chat?.modelOf(model) ?? model)
        checkWanted(request.body, clock.now())
        const wanted = { label, authorities, models, by: caller,
          expiresAt: expires === null ? null : new Date(expires).toISOString() }
        const made = await (local === true ? tokens.create(wanted) : keys.create(wanted, limits))
        request.note({ id: made.record.id })
        emit('TokenCreated', { id: made.record.id, label, authorities, by: caller.id })
        const only = { node: local === true ? name : null, replaces: null, limits: limits ?? null }
        return { token: made.token, record: { ...made.record, ...only } }
      },
      rotate: async (request) => {
        const { params: { id }, body: { overlap_seconds: overlap }, caller } = request
        const { token, record, replaces, ends } = await keys.rotate(id, overlap ?? DAY_SECONDS, caller)
        request.note({ id: record.id })
        emit('TokenRotated', { id: record.id, replaces, ends, by: caller.id })
        const { limits = null } = scheme.get(record.id) ?? {}
        return { token, record: { ...record, node: null, limits, replaces }, replaces, ends }
      },
      revoke: async ({ params: { id }, caller }) => {
        // The cluster must learn of the revocation even if the write to the token file fails.
        const known = await tokens.revoke(id).finally(revocations.tell)
        if (!known) throw error('token_not_found', `The token ${id} does not exist.`)
        emit('TokenRevoked', { id, by: caller.id })
        return { id, revoked: true as const, admitted: cluster.admittedBy(id) }
      }
    }
  }
})

/** Throws `invalid_request` for options that exclude each other, and an expiry in the past. */
function checkWanted (
  { authorities, expires, limits, local, models }: FromSchema<typeof routes.create.body>, nowMs: number
): void {
  const more = (models ?? limits) && authorities.find((one) => !USE.includes(one))
  if (more !== undefined) {
    throw badField('authorities', `"${more}" could lead around models and limits; with these, only ` +
      USE.join(', '))
  }
  if (limits !== undefined && local === true) throw badField('limits', 'hold for all nodes; leave local out')
  if (expires != null && Date.parse(expires) <= nowMs) throw badField('expires', `is ${expires}, in the past`)
}

/** Start of the ids of temporary keys for web pages, which count for the key that made them. */
const TEMPORARY = 'ek_'
/** Authorities of a token for some models only, or with limits. */
const USE = ['read', 'invoke', 'external']
const DAY_SECONDS = 86_400
/** Milliseconds between checks of the contact with the cluster. */
const CONTACT_MS = 5000

/** Maximum number of revocations in the replicated document, whose 256 KiB all plugins share. */
const MOST = 500

interface RevocationOptions {
  /** Maps a revoked token's id to its expiry, or to an empty string if it never expires. */
  section: Section<string>
  keys: Pick<Section<Key>, 'entries' | 'get' | 'remove'>
  tokens: Pick<Tokens, 'list' | 'revoke' | 'revoked'>
  clock: Clock
  log: Logger
  keep: (id: string, expires: string) => Promise<unknown>
}

/**
 * Synchronizes revocations between this node's token file and the cluster document, so that tokens revoked
 * since a backup stay revoked after its restore.
 */
function createRevocations ({ section, keys, tokens, clock, log, keep }: RevocationOptions) {
  const isOver = (expires: string): boolean => expires !== '' && Date.parse(expires) <= clock.now()
  /** Ids of keys that the document has forgotten need no revocation. */
  const isGone = (id: string): boolean => id.startsWith('key_') && keys.get(id) === undefined
  const later = (act: () => Promise<void>) => (): void => {
    act().catch((err: unknown) => { log.warn({ err }, 'token revocations could not be synchronized') })
  }
  return {
    /** Revokes tokens and keys that the document lists. */
    hear: later(async () => {
      const known = new Set(tokens.revoked().map(({ id }) => id))
      const open = new Set(tokens.list().map(({ id }) => id).filter((id) => !known.has(id)))
      for (const { key } of section.entries()) if (open.has(key)) await tokens.revoke(key)
    }),
    /** Adds the revocations that this node knows to the document. */
    tell: later(async () => {
      for (const { id, expires } of tokens.revoked()) {
        const isKnown = section.get(id) !== undefined || isOver(expires ?? '') || isGone(id)
        if (!isKnown) await keep(id, expires ?? '')
      }
    }),
    /** Command handler on the master; adds a revocation to the document. */
    command: ({ id, expires }: { id: string, expires: string }): Record<string, unknown> => {
      const known = [...section.entries()]
      for (const { key, value } of known) if (isOver(value) || isGone(key)) section.remove(key)
      if (known.length < MOST) section.put(id, expires)
      // Without room for the revocation, the key and all that it made are removed.
      else {
        for (const { key, value } of keys.entries()) if ([key, ...value.makers].includes(id)) keys.remove(key)
      }
      return {}
    }
  }
}
