import type { Caller, Manifest, RouteDecl, RouteRequest } from '../api/plugin.js'
import { formatPath, parsePath } from '../config/paths.js'
import { kernelError } from '../api/errors.js'
import { requireAuthority } from './access.js'
import type { ConfigApi, ConfigChange } from '../config/api.js'

const ok = { type: 'object', required: ['ok'], properties: { ok: { type: 'boolean' } } } as const

const readyCheck = {
  type: 'object',
  required: ['name', 'ok', 'detail'],
  properties: { name: { type: 'string' }, ok: { type: 'boolean' }, detail: { type: 'string' } }
} as const

const readyReply = {
  type: 'object',
  required: ['ready', 'checks'],
  properties: { ready: { type: 'boolean' }, checks: { type: 'array', items: readyCheck } }
} as const

const readyQuery = {
  type: 'object',
  additionalProperties: false,
  properties: { model: { type: 'string', minLength: 1, maxLength: 200 } }
} as const

const stateQuery = {
  type: 'object',
  additionalProperties: false,
  properties: {
    follow: {
      enum: ['0', '1'],
      description: '1: server-sent events, one at once and one after each change'
    },
    at: {
      type: 'string', minLength: 1, maxLength: 40,
      description: 'As it was at this index of GET /events, or at this time (ISO-8601).'
    }
  }
} as const

const restartQuery = {
  type: 'object',
  additionalProperties: false,
  properties: { node_id: { type: 'string', minLength: 1 } }
} as const

const restartReply = {
  type: 'object',
  required: ['status', 'node_id'],
  properties: { status: { const: 'restarting' }, node_id: { type: 'string' } }
} as const

const pluginRow = {
  type: 'object', additionalProperties: false, required: ['name', 'version', 'summary', 'enabled', 'why'],
  properties: {
    name: { type: 'string' }, version: { type: 'string' }, summary: { type: 'string' },
    enabled: { type: 'boolean' }, why: { type: ['string', 'null'], description: 'why it is off' }
  }
} as const

const configChange = {
  type: 'object',
  additionalProperties: false,
  required: ['revision', 'set'],
  properties: {
    revision: { type: 'string' },
    set: { type: 'object', minProperties: 1, description: 'values by dotted path, null to remove' }
  }
} as const

/** The kernel's own routes; capabilities have theirs in kernel/calls. */
export const systemRoutes = {
  healthz: {
    method: 'GET', url: '/healthz', authority: null,
    summary: 'The process is up.',
    reply: ok
  },
  readyz: {
    method: 'GET', url: '/readyz', authority: null,
    summary: 'Everything set to start is ready; with `model` (needs `read`), that it answers real requests.',
    query: readyQuery,
    reply: readyReply,
    errors: ['not_ready']
  },
  openapi: {
    method: 'GET', url: '/openapi.json', authority: null,
    summary: 'This interface as OpenAPI 3.1.',
    produces: 'application/json; charset=utf-8'
  },
  state: {
    method: 'GET', url: '/state', authority: 'read', stream: true,
    summary: 'The state of the cluster: now, or with `at` what is recorded of an earlier moment.',
    query: stateQuery,
    errors: ['not_recorded', 'not_ready', 'plugin_disabled']
  },
  nodeId: {
    method: 'GET', url: '/node_id', authority: 'read',
    summary: 'The id of this node, a JSON string.',
    reply: { type: 'string' }
  },
  identity: {
    method: 'GET', url: '/node/identity', authority: 'read',
    summary: 'Who this node is.',
    reply: { type: 'object', required: ['nodeId', 'nodeInstallId', 'hostname', 'ipAddress'] }
  },
  restart: {
    method: 'POST', url: '/admin/restart', members: true, authority: 'operator',
    summary: 'Replaces the node\'s process; it rejoins by itself.',
    query: restartQuery,
    reply: restartReply,
    errors: ['restart_pending', 'node_not_found', 'unreachable']
  },
  config: {
    method: 'GET', url: '/config', authority: 'operator',
    summary: 'The settings in force, each with its origin; secrets masked.',
    reply: { type: 'object', required: ['revision', 'file', 'entries'] }
  },
  setConfig: {
    method: 'PUT', url: '/config', authority: 'operator',
    summary: 'Changes svc.yaml at the given revision; takes effect at the next restart.',
    body: configChange,
    reply: { type: 'object', required: ['revision', 'restart_needed'] },
    errors: ['config_changed', 'missing_grant']
  },
  plugins: {
    method: 'GET', url: '/v1/plugins', authority: 'plugin:read',
    summary: 'The plugins of this node, and why those that are off are.',
    reply: {
      type: 'object', required: ['plugins'], properties: { plugins: { type: 'array', items: pluginRow } }
    }
  },
  switchPlugin: {
    method: 'POST', url: '/v1/plugins/:name', authority: 'plugin:manage',
    summary: 'Switches a plugin on or off in svc.yaml; takes effect at the next restart.',
    params: { type: 'object', required: ['name'], properties: { name: { type: 'string', maxLength: 128 } } },
    body: {
      type: 'object', additionalProperties: false, required: ['enabled'],
      properties: { enabled: { type: 'boolean' } }
    },
    reply: { type: 'object', required: ['revision', 'restart_needed'] },
    errors: ['not_found', 'config_changed']
  }
} as const satisfies Record<string, RouteDecl>

interface ReadyReport { ready: boolean, checks: { name: string, ok: boolean, detail: string }[] }

/** What the system routes need of the node. */
export interface SystemParts {
  nodeId: string
  installId: string
  hostname: string
  address: () => string
  ready: (model?: string) => Promise<ReadyReport>
  /** The same bytes for everybody: an answer that nobody reads holds no copy. */
  openApi: () => Buffer
  state: (request: RouteRequest) => Promise<Record<string, unknown>>
  /** An earlier state. Throws `invalid_request`, `not_recorded`, `not_ready` and `plugin_disabled`. */
  stateAt: (moment: string, caller: Caller) => Promise<unknown>
  /** Resolves after the next change of state, or when the signal aborts. */
  changed: (signal: AbortSignal) => Promise<void>
  restart: () => boolean
  /** Whether an id or a name is this node's. */
  isSelf: (node: string) => boolean
  /** Asks another node to restart. Throws `node_not_found` and `unreachable`. */
  restartOther: (node: string, request: RouteRequest) => Promise<unknown>
  config: ConfigApi
  /** Every plugin of this node; `why` says why one is off. */
  plugins: () => { manifest: Manifest, why: string | null }[]
  /** A plugin was switched on or off in svc.yaml. */
  switched: (plugin: string, on: boolean) => void
}

/** A follower hears of changes at most this often, in ms. */
const FOLLOW_PAUSE_MS = 100

type Handlers = { [K in keyof typeof systemRoutes]: (request: RouteRequest) => unknown }

/** Handlers of the system routes. */
export function systemHandlers (parts: SystemParts): Handlers {
  return {
    healthz: () => ({ ok: true }),
    readyz: async (request) => {
      const { model } = request.query as { model?: string }
      // The answer may take a request to the model.
      if (model !== undefined) requireAuthority(request.caller, 'read')
      const result = await parts.ready(model)
      if (result.ready) return result
      const missing = result.checks.filter((c) => !c.ok).map((c) => `${c.name}: ${c.detail}`).join('; ')
      throw kernelError('not_ready', `Not ready: ${missing}`, { checks: result.checks })
    },
    openapi: () => parts.openApi(),
    state: async (request) => {
      const { follow, at } = request.query as { follow?: string, at?: string }
      if (at !== undefined && follow === '1') {
        throw kernelError('invalid_request', 'The past does not change: `at` goes without `follow`.',
          { param: 'at', issues: [{ path: 'at', message: 'goes without follow' }] })
      }
      if (at !== undefined) return await parts.stateAt(at, request.caller)
      if (follow !== '1') return await parts.state(request)
      await followState(parts, request)
    },
    nodeId: () => parts.nodeId,
    identity: () => ({
      nodeId: parts.nodeId,
      nodeInstallId: parts.installId,
      hostname: parts.hostname,
      ipAddress: parts.address()
    }),
    restart: (request) => {
      const { node_id: id } = request.query as { node_id?: string }
      if (id !== undefined && !parts.isSelf(id)) return parts.restartOther(id, request)
      if (!parts.restart()) throw kernelError('restart_pending')
      return { status: 'restarting', node_id: parts.nodeId }
    },
    config: () => parts.config.read(),
    setConfig: (request) => {
      const change = request.body as ConfigChange
      const written = parts.config.write(change, request.caller)
      for (const [path, value] of Object.entries(change.set)) {
        const [top, plugin, key, more] = parsePath(path) ?? []
        if (top !== 'plugins' || plugin === undefined || key !== 'enabled' || more !== undefined) continue
        if (typeof value === 'boolean') parts.switched(plugin, value)
      }
      return written
    },
    plugins: () => ({
      plugins: parts.plugins().map(({ manifest: { name, version, summary }, why }) =>
        ({ name, version, summary, enabled: why === null, why }))
    }),
    switchPlugin: (request) => {
      const { name } = request.params as { name: string }
      const { enabled } = request.body as { enabled: boolean }
      if (!parts.plugins().some(({ manifest }) => manifest.name === name)) {
        throw kernelError('not_found', `There is no plugin "${name}"; GET /v1/plugins lists them.`)
      }
      // Enabled is the default; written out it would demand, for the boot, that nothing it needs is off.
      const set = { [formatPath(['plugins', name, 'enabled'])]: enabled ? null : false }
      const written = parts.config.write({ revision: parts.config.read().revision, set }, request.caller)
      if (written.restart_needed) parts.switched(name, enabled)
      return written
    }
  }
}

async function followState (parts: SystemParts, request: RouteRequest): Promise<void> {
  const stream = request.open({ contentType: 'text/event-stream' })
  let last = ''
  while (!request.signal.aborted && !stream.closed) {
    const state = JSON.stringify(await parts.state(request))
    await stream.write(state === last ? ': keep-alive\n\n' : `data: ${state}\n\n`)
    last = state
    await parts.changed(request.signal)
    await new Promise((resolve) => setTimeout(resolve, FOLLOW_PAUSE_MS))
  }
}
