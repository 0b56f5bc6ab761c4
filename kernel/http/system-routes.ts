import { closedObject, openObject } from '../api/schema.js'
import type { RouteDecl } from '../api/route.js'

const text = { type: 'string' } as const
const flag = { type: 'boolean' } as const
const operatorsText = { type: ['string', 'null'], description: 'null without `operator`' } as const
const settings = {
  type: 'array', items: openObject({
    path: text, value: {}, origin: { enum: ['flag', 'env', 'file', 'default'] }, source: text,
    line: { type: 'integer' }, schema: { type: ['object', 'null'] },
    restart: { const: true, description: 'svc.yaml has another value, which takes effect after a restart' },
    local: { const: true, description: 'can be changed in svc.yaml only, not over HTTP' }
  }, ['path', 'schema'])
} as const
const effect = {
  in_effect: flag, why: { type: ['string', 'null'], description: 'why it does not take effect at once' }
} as const
const written = openObject({
  revision: text, restart_needed: flag,
  plugins: {
    type: 'array', description: 'the plugins that it enabled or disabled',
    items: openObject({ name: text, enabled: flag, ...effect })
  }
})

const ready = openObject({
  ready: flag, checks: { type: 'array', items: openObject({ name: text, ok: flag, detail: text }) }
})

const stateQuery = closedObject({
  follow: { enum: ['0', '1'], description: '1: server-sent events, one at once and one after each change' },
  at: {
    type: 'string', minLength: 1, maxLength: 40,
    description: 'The state at this index of GET /events, or at this time (ISO-8601).'
  }
}, [])

const plugins = {
  type: 'array', items: openObject({
    name: text, version: text, summary: text, enabled: flag,
    why: { type: ['string', 'null'], description: 'why it is disabled' }
  })
} as const

const configChange = {
  ...closedObject({
    revision: text,
    set: { type: 'object', minProperties: 1, description: 'values by dotted path, null to remove' }
  }, []),
  required: ['revision', 'set']
} as const

const alive = { method: 'GET', authority: null, reply: openObject({ ok: flag }) } as const

export const systemRoutes = {
  healthz: { ...alive, url: '/healthz', summary: 'The process is up.' },
  health: { ...alive, url: '/health', summary: 'The process is up; the path that clients of vLLM probe.' },
  readyz: {
    method: 'GET', url: '/readyz', authority: null,
    summary: 'Whether all configured parts are ready; with `model` (needs `read`), if it answers requests.',
    query: closedObject({ model: { type: 'string', minLength: 1, maxLength: 200 } }, []), reply: ready,
    errors: ['not_ready']
  },
  state: {
    method: 'GET', url: '/state', authority: 'read', stream: true,
    summary: 'The state of the cluster: now, or with `at` the recorded state of an earlier time.',
    query: stateQuery, errors: ['not_recorded', 'not_ready', 'plugin_disabled']
  },
  stateSync: {
    method: 'GET', url: '/state/sync', authority: 'read', stream: true, socket: true,
    summary: 'The state as a read-only Yjs document (WebSocket, y-websocket protocol): a list `entries` of ' +
      '{ key, val }, one for each key of /state; for an object, val is {} and each member has ' +
      'its own entry KEY/MEMBER.'
  },
  nodeId: {
    method: 'GET', url: '/node_id', authority: 'read', summary: 'The id of this node, a JSON string.',
    reply: { type: 'string' }
  },
  identity: {
    method: 'GET', url: '/node/identity', authority: 'read',
    summary: 'Identity of this node; host name and address for `operator` only.',
    reply: openObject({
      nodeId: text, nodeInstallId: text, hostname: operatorsText, ipAddress: operatorsText
    })
  },
  caller: {
    method: 'GET', url: '/v1/whoami', authority: null, summary: 'Who the caller is, and what it may do.',
    reply: closedObject({ id: text, authorities: { type: 'array', items: text } })
  },
  restart: {
    method: 'POST', url: '/admin/restart', members: true, authority: 'operator', audit: 'best-effort',
    summary: 'Restarts the node\'s process; it rejoins the cluster automatically.',
    query: closedObject({ node_id: { type: 'string', minLength: 1 } }, []),
    reply: openObject({ status: { const: 'restarting' }, node_id: text }),
    errors: ['restart_pending', 'node_not_found', 'unreachable']
  },
  config: {
    method: 'GET', url: '/config', authority: 'operator',
    summary: 'The settings in effect with their origins, secrets masked; whether svc.yaml has changed since.',
    reply: openObject({
      revision: text, file: text, entries: settings, unset: settings, restart_needed: flag
    })
  },
  setConfig: {
    method: 'PUT', url: '/config', authority: 'operator',
    summary: 'Changes svc.yaml at the given revision. Plugins are enabled or disabled at once if possible; ' +
      'other changes take effect at the next restart.',
    body: configChange, reply: written, errors: ['config_changed', 'missing_grant', 'plugin_failed']
  },
  plugins: {
    method: 'GET', url: '/v1/plugins', authority: 'plugin:read',
    summary: 'The plugins of this node, with the reason for each disabled one.',
    reply: openObject({ plugins })
  },
  switchPlugin: {
    method: 'POST', url: '/v1/plugins/:name', authority: 'plugin:manage',
    summary: 'Enables or disables a plugin in svc.yaml, and at once unless `why` has a reason against it.',
    params: openObject({ name: { type: 'string', maxLength: 128 } }),
    body: { ...closedObject({ enabled: flag }, []), required: ['enabled'] },
    reply: openObject({ revision: text, restart_needed: flag, ...effect }),
    errors: ['not_found', 'config_changed', 'plugin_failed']
  }
} as const satisfies Record<string, RouteDecl>
