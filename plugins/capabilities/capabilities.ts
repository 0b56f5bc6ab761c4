import { BytePool } from './chunk-buffer.js'
import { createInvocations, routeHandlers } from './handlers.js'
import { Invoker, type InvokerOptions } from './invoke.js'
import { defaultLimits, type CapabilityLimits } from './limits.js'
import { Registry } from './registry.js'
import { Remote, type RemoteOptions } from './remote.js'
import type { CapabilityServer, OffPlugin } from '../../kernel/index.js'
import type { Invocations } from './service.js'

export interface CapabilitiesOptions extends
  Pick<RemoteOptions, 'node'>, Pick<InvokerOptions, 'clock' | 'log' | 'commands'>,
  Partial<Pick<InvokerOptions, 'errorDecl' | 'tracers' | 'spending' | 'onOutcome'>> {
  /** Without a cluster, all capabilities are local. */
  cluster?: RemoteOptions['cluster']
  /** Install id of a live node with a capability that this node lacks; null if this node has it. */
  elsewhere?: ((capabilityId: string) => string | null) | undefined
  limits?: Partial<CapabilityLimits>
  /** The disabled plugin that provides a capability. */
  off?: (capabilityId: string) => OffPlugin | undefined
}

export interface Capabilities extends CapabilityServer {
  readonly registry: Registry
  readonly handlers: ReturnType<typeof routeHandlers>
  readonly invocations: Invocations
  /** Checks and runs calls; `invoker.calls` has the open calls. */
  readonly invoker: Invoker
}

export function createCapabilities (options: CapabilitiesOptions): Capabilities {
  const { clock, log, node, commands } = options
  const limits: CapabilityLimits = { ...defaultLimits, ...options.limits }
  const registry = new Registry(node.nodeId, options.off)
  const { cluster } = options
  // Prefer a local plugin: it finds its runners itself, and another node would add a point of failure.
  const elsewhere = (id: string): string | null => registry.has(id) ? null : options.elsewhere?.(id) ?? null
  const remote = new Remote({ clock, node, limits, cluster, elsewhere })
  const invoker = new Invoker({
    clock, log, commands, limits, registry, remote, errorDecl: options.errorDecl ?? (() => undefined),
    tracers: options.tracers, spending: options.spending ?? (() => undefined),
    onOutcome: options.onOutcome ?? (() => {})
  })
  const mediaPool = new BytePool(limits.mediaTotalBytes)
  const host = { clock, node, limits, registry, remote, invoker, mediaPool }
  return {
    register: (owner, decl, handler) => registry.register(owner, decl, handler),
    end: (owner, why) => invoker.calls.endOf(owner, why), registry, invoker,
    handlers: routeHandlers(host), invocations: createInvocations(host)
  }
}
