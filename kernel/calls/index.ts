import { delay } from '../api/clock.js'
import { Invoker } from './invoke.js'
import { defaultLimits } from './limits.js'
import { BytePool } from './chunk-buffer.js'
import { Registry } from './registry.js'
import { Remote } from './remote.js'
import { capabilityRoutes, createInvocations } from './routes.js'
import { CapabilitySession } from './session.js'
import type { Clock } from '../api/clock.js'
import type { Caller, CapabilityDecl, ErrorDecl, Logger, NodeInfo } from '../api/plugin.js'
import type { Cluster, Commands, Invocations } from '../api/services.js'
import type { Spending } from '../api/spending.js'
import type { Tracers } from '../observe/tracer.js'
import type { CallOutcome } from './calls.js'
import type { CapabilityLimits } from './limits.js'
import type { Handler } from './registry.js'
import type { CapabilityRoute } from './routes.js'
import type { SessionSocket } from './bounded-socket.js'

export interface CapabilitiesOptions {
  clock: Clock
  log: Logger
  node: Pick<NodeInfo, 'nodeId' | 'installId'>
  commands: Commands
  /** The other nodes; without them every capability is this node's own. */
  cluster?: Cluster | undefined
  /** Install id of a live node that serves a capability which this node does not; null when this one does. */
  elsewhere?: ((capabilityId: string) => string | null) | undefined
  limits?: Partial<CapabilityLimits>
  /** Declarations of plugins' error reasons, for errors that engines throw by name. */
  errorDecl?: (reason: string) => ErrorDecl | undefined
  /** What records calls. */
  tracers?: Tracers | undefined
  /** What says whether something may be spent; without it nothing may. */
  spending?: () => Spending | undefined
  /** Told how every call ended that got past its guards. */
  onOutcome?: (outcome: CallOutcome) => void
}

/** The capabilities of a node: what there is, and every way to call it. */
export interface Capabilities {
  /** Adds a capability; the returned function removes it. Throws an Error with every problem, a line each. */
  register (owner: string, decl: CapabilityDecl, handler: Handler): () => void
  /** What is registered here. */
  readonly registry: Registry
  routes (): CapabilityRoute[]
  /** Serves calls over a WebSocket until it closes. */
  session (ws: SessionSocket, caller: Caller): void
  /** For plugins that serve a capability under a route of their own. */
  readonly invocations: Invocations
  /** Guards and runs calls; `invoker.calls` are the open ones. */
  readonly invoker: Invoker
  /** Refuses new calls, ends the open ones with `shutting_down`, closes the sessions. */
  close (): Promise<void>
}

/** Makes the capability layer of one node. */
export function createCapabilities (options: CapabilitiesOptions): Capabilities {
  const { clock, log, node, commands } = options
  const limits: CapabilityLimits = { ...defaultLimits, ...options.limits }
  const registry = new Registry(node.nodeId)
  const { cluster } = options
  // What a plugin here serves finds its own way to runners: another node in between could only be lost.
  const elsewhere = (id: string): string | null => registry.has(id) ? null : options.elsewhere?.(id) ?? null
  const remote = new Remote({ clock, node, limits, cluster, elsewhere })
  const invoker = new Invoker({
    clock, log, commands, limits, registry, remote,
    errorDecl: options.errorDecl ?? (() => undefined),
    tracers: options.tracers,
    spending: options.spending ?? (() => undefined),
    onOutcome: options.onOutcome ?? (() => {})
  })
  const { calls } = invoker
  const mediaPool = new BytePool(limits.mediaTotalBytes)
  const sessions = new Set<CapabilitySession>()
  const host = { clock, node, limits, registry, remote, invoker, calls, mediaPool }
  return {
    invocations: createInvocations(host),
    register: (owner, decl, handler) => registry.register(owner, decl, handler),
    routes: () => capabilityRoutes(host),
    session (ws, caller) {
      const session = new CapabilitySession(ws, caller, { clock, limits, invoker })
      sessions.add(session)
      ws.on('close', () => { sessions.delete(session) })
    },
    registry,
    invoker,
    async close () {
      invoker.refuse()
      calls.abortAll('shutting_down')
      // Terminals go out first; a reader that does not take its own is cut off.
      await Promise.race([calls.idle(), delay(clock, limits.graceMs * 2)])
      for (const session of sessions) session.close()
      sessions.clear()
    }
  }
}
