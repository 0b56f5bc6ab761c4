import type { ClusterHost } from '../api/cluster.js'
import type { CapabilityDecl, NodeInfo } from '../api/plugin.js'
import type { CallLimits, CapabilityHandler, CapabilityHost, CapabilityServer } from '../api/services.js'

interface CapabilityParts {
  readonly node: NodeInfo
  readonly cluster: ClusterHost
  readonly callLimits: Partial<CallLimits>
}

interface Contributed {
  readonly args: readonly [owner: string, decl: CapabilityDecl, handler: CapabilityHandler]
  undo: (() => void) | undefined
}

/** Connects the capabilities of all plugins with the plugin that serves them. */
export function createCapabilities (
  { node, cluster, callLimits }: CapabilityParts
): CapabilityServer & CapabilityHost {
  const all = new Set<Contributed>()
  let server: CapabilityServer | undefined
  const said = cluster.sections.section<unknown>('node',
    { writer: 'node', summary: 'Abilities that nodes report.', value: {} })
  return {
    limits: callLimits,
    register (...args) {
      const one: Contributed = { args, undo: server?.register(...args) }
      all.add(one)
      return () => {
        all.delete(one)
        one.undo?.()
      }
    },
    end: async (owner, why) => { await server?.end(owner, why) },
    serve (next) {
      if (server !== undefined) throw new Error('another plugin serves the capabilities')
      for (const one of all) one.undo = next.register(...one.args)
      server = next
      return () => {
        server = undefined
        for (const one of all) one.undo?.()
      }
    },
    elsewhere (id) {
      for (const { nodeId, key, value } of said.entries()) {
        if (nodeId === node.nodeId || key !== 'capabilities') continue
        if (Array.isArray(value) && value.includes(id)) {
          return cluster.service.resolve(nodeId)?.installId ?? null
        }
      }
      return null
    }
  }
}
