import { homedir } from 'node:os'
import { join } from 'node:path'
import { definePlugin } from '../../kernel/index.js'
import type { RouteDecl } from '../../kernel/index.js'
import { RunnersService } from '../runners/service.js'
import { sizeOf, stagedCopies, volumeOf } from './disk.js'
import { effective, settings } from './settings.js'

const bytes = { type: 'integer', minimum: 0 } as const
const stagedModel = {
  type: 'object',
  required: ['modelId', 'directory', 'sizeBytes', 'lastUsedEpochSeconds', 'inUse', 'in_use']
} as const
const storage = {
  method: 'GET', url: '/store/storage', authority: 'read',
  summary: 'What this node keeps on disk: staged models, event log, free space.',
  reply: {
    type: 'object', additionalProperties: false,
    required: [
      'nodeId', 'stagingRoot', 'stagedModels', 'stagedTotalBytes', 'eventLogBytes',
      'diskTotalBytes', 'diskFreeBytes'
    ],
    properties: {
      nodeId: { type: 'string' },
      stagingRoot: { type: ['string', 'null'] },
      stagedTotalBytes: bytes,
      eventLogBytes: bytes,
      diskTotalBytes: bytes,
      diskFreeBytes: bytes,
      stagedModels: { type: 'array', items: stagedModel }
    }
  }
} as const satisfies RouteDecl

/** `~` at the front of a path is the user's home. */
const expanded = (path: string): string => path.startsWith('~/') ? join(homedir(), path.slice(2)) : path

/** Models on disk. So far: the settings, and the node's own storage breakdown. */
export default definePlugin({
  name: 'staging',
  version: '0.1.0',
  kernel: '^1.0.0',
  summary: 'Knows what models this node keeps on disk.',
  after: ['runners'],
  consumesOptional: { runners: RunnersService },
  settings,
  routes: { storage }
}, (ctx) => {
  const { model_store: store, node_cache_path: cachePath, node_overrides: overrides } = ctx.settings
  const own = effective(store.staging, cachePath, overrides as Parameters<typeof effective>[2], ctx.node)
  const root = own.cachePath === null ? join(ctx.node.home, 'staging') : expanded(own.cachePath)
  return {
    routes: {
      storage: async ({ caller }) => {
        const reports = ctx.deps.runners?.reports() ?? []
        const running = new Set(reports.filter((r) => r.processAlive).map((r) => r.modelId))
        const [copies, volume, log] = await Promise.all([
          stagedCopies(root), volumeOf(root), sizeOf(join(ctx.node.home, 'events'))
        ])
        const mayKnow = caller.authorities.has('operator')
        return {
          nodeId: ctx.node.nodeId,
          stagingRoot: mayKnow ? root : null,
          stagedModels: copies.map((copy) => {
            const inUse = running.has(copy.modelId)
            return { ...copy, directory: mayKnow ? copy.directory : null, inUse, in_use: inUse }
          }),
          stagedTotalBytes: copies.reduce((sum, c) => sum + c.sizeBytes, 0),
          eventLogBytes: log,
          diskTotalBytes: volume.totalBytes,
          diskFreeBytes: volume.freeBytes
        }
      }
    }
  }
})
