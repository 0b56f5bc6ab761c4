import os from 'node:os'
import { kernelError, noSuchNode, SvcError } from '../api/errors.js'
import { askMember, errorFrom, MemberFault } from '../net/ask-member.js'
import { requireAuthority } from './access.js'
import type { Manifest, RouteRequest } from '../api/plugin.js'
import type { Assembly } from '../plugins/assembly.js'
import type { PluginSwitch } from '../plugins/switch.js'
import type { StateSource } from '../state/source.js'
import type { StateSync } from '../state/sync.js'
import type { ConfigChange } from '../config/api.js'
import type { systemRoutes } from './system-routes.js'

export type SystemParts =
  Pick<Assembly, 'options' | 'config' | 'present' | 'bus' | 'readiness' | 'changes'> &
  { readonly state: StateSource, readonly switches: PluginSwitch, readonly sync: StateSync }

/** Limits for another node's answer to a restart request: size in bytes, then time in ms. */
const ANSWER_BYTES = 64 * 1024
const ANSWER_MS = 60_000
/** Minimum time in ms between two events in a followed stream. */
const FOLLOW_PAUSE_MS = 100

type Handlers =
  { [K in Exclude<keyof typeof systemRoutes, 'stateSync'>]: (request: RouteRequest) => unknown } &
  { stateSync: StateSync['serve'] }

export function systemHandlers (kernel: SystemParts): Handlers {
  const { nodeId, installId } = kernel.options.node
  return {
    healthz: () => ({ ok: true }),
    health: () => ({ ok: true }),
    readyz: (request) => readyz(kernel, request),
    state: (request) => state(kernel, request),
    stateSync: kernel.sync.serve,
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
  // The readiness check of a model may send that model a request, so it requires an authority.
  if (model !== undefined) requireAuthority(request.caller, 'read')
  const of = await readiness.run(model)
  const { masterNodeId } = options.cluster.session
  const all = [{ name: 'master', ok: masterNodeId !== null, detail: masterNodeId ?? 'none known' }, ...of]
  // Details name nodes and models, so only callers with `read` see them.
  const checks = request.caller.authorities.has('read') ? all : all.map((c) => ({ ...c, detail: '' }))
  const ready = checks.every((c) => c.ok) && (model === undefined || of.length > 0)
  if (ready) return { ready, checks }
  const missing = checks.filter((c) => !c.ok)
    .map(({ name, detail }) => detail === '' ? name : `${name}: ${detail}`).join('; ')
  throw kernelError('not_ready', `Not ready: ${missing}`, { checks })
}

async function state (kernel: SystemParts, request: RouteRequest): Promise<unknown> {
  const { follow, at } = request.query as { follow?: string, at?: string }
  if (at !== undefined && follow === '1') {
    throw kernelError('invalid_request', '`at` and `follow` cannot be combined.',
      { param: 'at', issues: [{ path: 'at', message: 'cannot be combined with follow' }] })
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

/** Asks another node to restart. Throws `node_not_found`, `unreachable`, and the other node's error. */
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
    throw errorFrom(error instanceof MemberFault ? error.refusal : null, other) ??
      kernelError('unreachable', `The node "${id}" sent an unreadable answer.`)
  }
}
