import os from 'node:os'
import { kernelError, noSuchNode, SvcError } from '../api/errors.js'
import { openApi } from '../plugins/openapi.js'
import { askMember, errorFrom, MemberFault } from '../net/ask-member.js'
import { requireAuthority } from './access.js'
import type { Manifest, RouteDecl, RouteRequest } from '../api/plugin.js'
import type { Assembly } from '../plugins/assembly.js'
import type { PluginSwitch } from '../plugins/switch.js'
import type { StateSource } from '../state/source.js'
import type { ConfigChange } from '../config/api.js'

const text = { type: 'string' } as const
const operatorsText = { type: ['string', 'null'], description: 'null without `operator`' } as const
const object = <const P extends Record<string, unknown>>(properties: P) =>
  ({ type: 'object', required: Object.keys(properties), properties }) as const
const settings = {
  type: 'array', items: {
    type: 'object', required: ['path', 'schema'],
    properties: {
      path: text, value: {}, origin: { enum: ['flag', 'env', 'file', 'default'] }, source: text,
      line: { type: 'integer' }, schema: { type: ['object', 'null'] },
      restart: { const: true, description: 'svc.yaml says something else, which counts after a restart' },
      local: { const: true, description: 'only svc.yaml itself changes it' }
    }
  }
} as const
const effect = {
  in_effect: { type: 'boolean' },
  why: { type: ['string', 'null'], description: 'what keeps it from taking effect at once' }
} as const
const written = object({
  revision: text, restart_needed: { type: 'boolean' },
  plugins: {
    type: 'array', description: 'the plugins that it has switched',
    items: object({ name: text, enabled: { type: 'boolean' }, ...effect })
  }
})

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

/** The kernel's own routes. */
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
    produces: 'application/json; charset=utf-8',
    reply: { type: 'object' }
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
    summary: 'Who this node is; where it is, for `operator` only.',
    reply: object({
      nodeId: text, nodeInstallId: text, hostname: operatorsText, ipAddress: operatorsText
    })
  },
  restart: {
    method: 'POST', url: '/admin/restart', members: true, authority: 'operator', audit: 'best-effort',
    summary: 'Replaces the node\'s process; it rejoins by itself.',
    query: restartQuery,
    reply: restartReply,
    errors: ['restart_pending', 'node_not_found', 'unreachable']
  },
  config: {
    method: 'GET', url: '/config', authority: 'operator',
    summary: 'The settings in force with their origins, secrets masked; whether svc.yaml has changed since.',
    reply: object({
      revision: text, file: text, entries: settings, unset: settings, restart_needed: { type: 'boolean' }
    })
  },
  setConfig: {
    method: 'PUT', url: '/config', authority: 'operator',
    summary: 'Changes svc.yaml at the given revision. A plugin is switched at once where that can be done; ' +
      'the rest takes effect at the next restart.',
    body: configChange,
    reply: written,
    errors: ['config_changed', 'missing_grant', 'plugin_failed']
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
    summary: 'Switches a plugin on or off in svc.yaml, and at once where `why` does not say why not.',
    params: { type: 'object', required: ['name'], properties: { name: { type: 'string', maxLength: 128 } } },
    body: {
      type: 'object', additionalProperties: false, required: ['enabled'],
      properties: { enabled: { type: 'boolean' } }
    },
    reply: object({ revision: text, restart_needed: { type: 'boolean' }, ...effect }),
    errors: ['not_found', 'config_changed', 'plugin_failed']
  }
} as const satisfies Record<string, RouteDecl>

/** The parts of the kernel that the system routes use. */
export type SystemParts =
  Pick<Assembly, 'options' | 'config' | 'present' | 'routes' | 'bus' | 'readiness' | 'changes'> &
  { readonly state: StateSource, readonly switches: PluginSwitch }

/** Most that is read of another node's answer to a restart, and how long that may take, ms. */
const ANSWER_BYTES = 64 * 1024
const ANSWER_MS = 60_000
/** A follower hears of changes at most this often, in ms. */
const FOLLOW_PAUSE_MS = 100

type Handlers = { [K in keyof typeof systemRoutes]: (request: RouteRequest) => unknown }

export function systemHandlers (kernel: SystemParts): Handlers {
  const { nodeId, installId, version } = kernel.options.node
  let document: { of: unknown, text: Buffer } | undefined
  return {
    healthz: () => ({ ok: true }),
    readyz: (request) => readyz(kernel, request),
    openapi: () => {
      const { manifests } = kernel.present
      if (document?.of !== manifests) {
        document = { of: manifests, text: Buffer.from(JSON.stringify(describe(kernel, version))) }
      }
      return document.text
    },
    state: (request) => state(kernel, request),
    nodeId: () => nodeId,
    identity: ({ caller: { authorities } }) => ({
      nodeId,
      nodeInstallId: installId,
      ...authorities.has('operator')
        ? { hostname: os.hostname(), ipAddress: [...kernel.options.served().addresses][0] ?? '127.0.0.1' }
        : { hostname: null, ipAddress: null }
    }),
    restart: (request) => restart(kernel, request),
    ...pluginHandlers(kernel)
  }
}

/** svc.yaml and the switches of plugins in it. */
function pluginHandlers (
  kernel: SystemParts
): Pick<Handlers, 'config' | 'setConfig' | 'plugins' | 'switchPlugin'> {
  const { present, config } = kernel
  const all = (): { manifest: Manifest, why: string | null }[] => [
    ...present.on.map(({ manifest }) => ({ manifest, why: null })),
    ...present.off.map(({ plugin: { manifest }, message }) => ({ manifest, why: message }))
  ]
  return {
    config: () => config.read(),
    setConfig: async (request) => {
      const change = request.body as ConfigChange
      request.note({ set: config.masked(change) })
      return await kernel.switches.write(change, request.caller)
    },
    plugins: () => ({
      plugins: all().map(({ manifest: { name, version, summary }, why }) =>
        ({ name, version, summary, enabled: why === null, why }))
    }),
    switchPlugin: async (request) => {
      const { name } = request.params as { name: string }
      const { enabled } = request.body as { enabled: boolean }
      return await kernel.switches.turn(name, enabled, request.caller)
    }
  }
}

async function readyz ({ readiness, options }: SystemParts, request: RouteRequest): Promise<unknown> {
  const { model } = request.query as { model?: string }
  // The answer may take a request to the model.
  if (model !== undefined) requireAuthority(request.caller, 'read')
  const of = await readiness.run(model)
  const { masterNodeId } = options.cluster.session
  const all = [{ name: 'master', ok: masterNodeId !== null, detail: masterNodeId ?? 'none known' }, ...of]
  // Details name nodes and models, which only readers may see.
  const checks = request.caller.authorities.has('read') ? all : all.map((c) => ({ ...c, detail: '' }))
  const ready = checks.every((c) => c.ok) && (model === undefined || of.length > 0)
  if (ready) return { ready, checks }
  const missing = checks.filter((c) => !c.ok)
    .map(({ name, detail }) => detail === '' ? name : `${name}: ${detail}`).join('; ')
  throw kernelError('not_ready', `Not ready: ${missing}`, { checks })
}

/** The OpenAPI document of what is on; routes of disabled plugins are not part of the interface. */
function describe ({ routes, present, options }: SystemParts, version: string): object {
  const off = new Set(present.off.map((o) => o.plugin.manifest.name))
  const scheme = options.served().secure ? 'https' : 'http'
  return openApi(routes.filter(({ owner }) => !off.has(owner)), present.manifests, version, scheme)
}

async function state (kernel: SystemParts, request: RouteRequest): Promise<unknown> {
  const { follow, at } = request.query as { follow?: string, at?: string }
  if (at !== undefined && follow === '1') {
    throw kernelError('invalid_request', 'The past does not change: `at` goes without `follow`.',
      { param: 'at', issues: [{ path: 'at', message: 'goes without follow' }] })
  }
  if (at !== undefined) return await kernel.state.at(at, request.caller)
  if (follow !== '1') return await kernel.state.now(request.caller)
  return await followState(kernel, request)
}

async function followState ({ state, changes }: SystemParts, request: RouteRequest): Promise<void> {
  const stream = request.open({ contentType: 'text/event-stream' })
  let last = ''
  while (!request.signal.aborted && !stream.closed) {
    const text = JSON.stringify(await state.now(request.caller))
    await stream.write(text === last ? ': keep-alive\n\n' : `data: ${text}\n\n`)
    last = text
    await changes.next(request.signal)
    await new Promise((resolve) => setTimeout(resolve, FOLLOW_PAUSE_MS))
  }
}

function restart ({ options, bus }: SystemParts, request: RouteRequest): unknown {
  const { node_id: id } = request.query as { node_id?: string }
  const { nodeId } = options.node
  if (id !== undefined && options.cluster.service.resolve(id)?.self !== true) {
    return restartOther(options, id, request)
  }
  if (!options.restart()) throw kernelError('restart_pending')
  bus.emit('kernel', 'NodeRestarted', { nodeId })
  return { status: 'restarting', node_id: nodeId }
}

/** Asks another node to restart. Throws `node_not_found`, `unreachable`, and the other node's refusal. */
async function restartOther (
  { clock, cluster: { service } }: SystemParts['options'], id: string,
  { caller, signal }: RouteRequest
): Promise<unknown> {
  const other = service.resolve(id)
  if (other === undefined) throw noSuchNode(id, service.nodes())
  try {
    return JSON.parse(await askMember({ cluster: service, clock }, other, {
      method: 'POST', path: '/admin/restart', caller, signal, ms: ANSWER_MS, bytes: ANSWER_BYTES,
      refusals: true
    }))
  } catch (error) {
    if (error instanceof SvcError) throw error
    throw errorFrom(error instanceof MemberFault ? error.refusal : null) ??
      kernelError('unreachable', `The node "${id}" gave no answer that can be read.`)
  }
}
